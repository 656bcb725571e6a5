"""SQL on Paimon tables.

::

    text -> run -> session, and one module per kind of statement
                     ddl, show    metadata, without Spark
                     dml          rows through the core's writers
                     query        names replaced, the rest runs in Spark
                     call         procedures

Spark starts with the first statement that needs it.
"""

from paimon_spark.sql.procedures import Procedures
from paimon_spark.sql.result import Result
from paimon_spark.sql.run import sql
from paimon_spark.sql.session import SqlSession

__all__ = ["Procedures", "Result", "SqlSession", "sql"]
