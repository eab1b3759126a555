"""The surfaces of other libraries, for programs that were written for them: each in a folder, with an entry point in
the group ``jupyter_dtf.compat`` that has its names found.
"""
