#!/bin/sh
# Airflow's UI and API, with the one login of .env.  The simple auth manager reads it from this file.
set -eu
umask 077
printf '{"admin": "%s"}' "$AIRFLOW_ADMIN_PASSWORD" \
  >"$AIRFLOW_HOME/simple_auth_manager_passwords.json.generated"
unset AIRFLOW_ADMIN_PASSWORD
exec airflow api-server
