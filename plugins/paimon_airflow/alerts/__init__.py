"""The task that evaluates alerts, and the Airflow notifiers that deliver them.

::

    operator   evaluates the alerts of the policy from the history
      `-- notifiers  sends them by e-mail, by webhook, or by any notifier
"""
