"""The database schema of the history: Alembic migrations, which never change once released.

env.py       what Alembic runs for each command
columns.py   columns that several migrations share
versions/    one module for each version; its revision is the number of the version
"""
