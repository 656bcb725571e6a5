"""Global indexes of tables with data evolution: from the values of a column to ids of rows."""
