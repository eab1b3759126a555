"""An empty language pack: with it, JupyterLab offers German and asks extensions for their own translations.

People install ``jupyterlab-language-pack-de-DE``, which has JupyterLab's own messages as well.
"""
