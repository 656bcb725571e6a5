"""Casts of columns and single values with Java's results.

::

    cast       casts a column; nested types, text and bytes
      |-- rules     which casts exist, and which a schema change may use
      |-- numbers   integers, floats, DECIMAL, BOOLEAN
      |-- times     dates, times, timestamps
      |-- text      single values from and to text
      `-- arrays    numbers from and to Arrow arrays
"""
