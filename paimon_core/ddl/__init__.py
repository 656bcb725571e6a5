"""Creates and alters tables: new schemas, schema changes, and Java's validation rules.

::

    columns, options --create--> TableSchema
    TableSchema, SchemaChanges --alter--> TableSchema
    validation   the rules for every new schema
"""
