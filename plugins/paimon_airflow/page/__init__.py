"""The page in Airflow's navigation, and the API that it uses.

::

    app        the FastAPI application that Airflow mounts under /caretaker
      |-- api       the routes under /caretaker/api
      |-- files     HTML, JavaScript and style sheets, served from the package
      `-- security  who may see, who may trigger; headers of all responses
    models     the answers of the API, with a schema each
    reading    one table's metadata, read from the lake on request
    static/    hand-written ES modules and CSS; no build step, nothing from other servers

The lists come from the history database (`paimon_maintenance.history.lake_view`, `table_view`,
`work_view`).  Only the API server imports this package.
"""
