"""Making and altering tables: new schemas, schema changes, and what Java accepts of either.

::

    columns, options --create--> TableSchema
    TableSchema, SchemaChanges --alter--> TableSchema
    validation   the rules that every new schema is checked against
"""
