"""Values of type VARIANT: binary JSON (Java: `data/variant/*`).

::

    variant    to JSON
    building   from JSON; parts of values
    parts      the names of the two parts
"""
