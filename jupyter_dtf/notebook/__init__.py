"""The notebook integration: magics, displays and widgets."""
