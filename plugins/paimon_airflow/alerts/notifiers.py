"""Sends alerts through Airflow's notifiers: e-mail, a webhook, or any BaseNotifier by import path.

`history.alert_store` says which message is due to whom; this module only delivers it.
"""

from __future__ import annotations

import asyncio
import contextvars
import html
import json
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.bases.notifier import BaseNotifier

if TYPE_CHECKING:
    from airflow.sdk import Context

    from paimon_maintenance.history.alert_store import AlertStore, StoredAlert, Word
    from paimon_maintenance.policy.needs import AlertTarget


DEFAULT_TARGET: Final = "default"
"""The target of tables whose rules do not name one."""
_PATHS: Final = {
    "email": "airflow.providers.smtp.notifications.smtp.SmtpNotifier",
    "webhook": "paimon_airflow.alerts.notifiers.WebhookNotifier",
}
_EMAIL: Final = {"subject": "{{ alert.subject }}", "html_content": "{{ alert.html }}"}
_TIMEOUT_SECONDS: Final = 15.0
_MOST_SECONDS: Final = 60.0
"""How long a notifier may take for one message: some have no timeout of their own."""
_NO_ANSWER: Final = (urllib.error.URLError, ConnectionError, TimeoutError)
"""Errors of the way to a target, whatever the message."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """urllib would send a GET without the alert to the new address, and the token to any host."""

    def redirect_request(self, *_: object) -> None:
        """Follow nothing: the answer becomes an HTTPError."""


_OPENER: Final = urllib.request.build_opener(_NoRedirect)


class WebhookNotifier(BaseNotifier):
    """Posts an alert as one JSON object to a URL.

    The object has `word` ("open", "still open", "all clear"), `subject`, `text`, `next_step`,
    `table`, `kind`, `owner`, `opened_millis` and `resolved_millis`.  `connection` names an Airflow
    connection of type HTTP instead of `url`; its password becomes a bearer token.  A redirect is an
    error.
    """

    template_fields = ("url",)

    def __init__(
        self,
        *,
        url: str | None = None,
        connection: str | None = None,
        headers: Mapping[str, str] | None = None,
        context: Context | None = None,
    ) -> None:
        super().__init__(context)
        if (url is None) == (connection is None):
            message = "a webhook needs either `url` or `connection`"
            raise ValueError(message)
        self.url = url
        self.connection = connection
        self.headers = dict(headers or {})

    def notify(self, context: Context) -> None:
        """Post the alert; OSError if it is not accepted."""
        url, headers = self._target()
        if not url.startswith(("https://", "http://")):
            message = "the URL of a webhook must begin with https:// or http://"
            raise ValueError(message)
        request = urllib.request.Request(  # noqa: S310 - checked above
            url,
            data=json.dumps(_posted(context)).encode(),
            headers={"Content-Type": "application/json", **self.headers, **headers},
        )
        try:
            with _OPENER.open(request, timeout=_TIMEOUT_SECONDS):
                pass
        except urllib.error.HTTPError as e:
            # The URL may hold a secret: it stays out of the message.
            message = f"the webhook answered {e.code} {e.reason}"
            raise OSError(message) from None

    async def async_notify(self, context: Context) -> None:
        """As `notify`, in a thread."""
        await asyncio.to_thread(self.notify, context)

    def _target(self) -> tuple[str, dict[str, str]]:
        if self.connection is None:
            return str(self.url), {}
        from airflow.sdk import BaseHook  # noqa: PLC0415 - only when an alert is sent

        found = BaseHook.get_connection(self.connection)
        host = found.host or ""
        if "://" not in host:
            host = f"{found.schema or 'https'}://{host}"
        port = f":{found.port}" if found.port else ""
        path = str(found.extra_dejson.get("endpoint") or "")
        bearer = {"Authorization": f"Bearer {found.password}"} if found.password else {}
        return f"{host}{port}{path}", bearer


def _posted(context: Any) -> dict[str, object]:
    return {k: v for k, v in context["alert"].items() if k not in ("html", "lines")}


def notifier_of(target: AlertTarget) -> BaseNotifier:
    """The notifier of a target.

    ValueError if there is no such notifier, or its arguments are wrong.
    """
    path = _PATHS.get(target.notifier, target.notifier)
    module, _, name = path.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as e:
        message = f"there is no notifier {path}: {e}"
        raise ValueError(message) from e
    if not (isinstance(found, type) and issubclass(found, BaseNotifier)):
        message = f"{path} is not a notifier (a subclass of airflow.sdk's BaseNotifier)"
        raise TypeError(message)
    defaults = _EMAIL if target.notifier == "email" else {}
    arguments: dict[str, Any] = {**defaults, **target.arguments}
    return found(**arguments)


def send_alerts(
    store: AlertStore, targets: Mapping[str, AlertTarget], context: Context, now: int
) -> tuple[int, list[str]]:
    """Send the messages that are due; returns how many were sent, and why others failed.

    A message that could not be sent is due again at the next call.  A target that does not answer
    is asked once: during an outage its timeouts would keep the alerts from all others.
    """
    from paimon_maintenance.history.alert_store import to_send  # noqa: PLC0415 - when a task runs

    default = DEFAULT_TARGET if DEFAULT_TARGET in targets else None
    sent, problems = 0, []
    waiting: Counter[str] = Counter()
    for alert, words in to_send(store.take(now), now, default=default):
        reached = {}
        for name, word in words.items():
            if name in waiting:
                waiting[name] += 1
                continue
            try:
                if name not in targets:
                    message = f"the policy has no alert target {name!r}"
                    raise ValueError(message)
                _notify(notifier_of(targets[name]), _context(context, alert, word))
            except Exception as e:  # noqa: BLE001 - another target may be reachable
                problems.append(f"{alert.subject} to {name}: {type(e).__name__}: {e}")
                if isinstance(e, _NO_ANSWER):
                    waiting[name] = 0
                continue
            reached[name] = word
            sent += 1
        store.record_sent(alert, reached, now)
    problems += [f"{n} more to {name}, which does not answer" for name, n in waiting.items() if n]
    return sent, problems


def _notify(notifier: BaseNotifier, context: Any) -> None:
    """Call the notifier.

    TimeoutError if it hangs, because the task and all other alerts wait for it.
    """
    errors: list[BaseException] = []

    def call() -> None:
        try:
            notifier(context)
        except BaseException as e:  # noqa: BLE001 - raised by the caller
            errors.append(e)

    # A daemon: nothing can stop the thread, and the process need not wait for it.
    thread = threading.Thread(target=contextvars.copy_context().run, args=(call,), daemon=True)
    thread.start()
    thread.join(_MOST_SECONDS)
    if errors:
        raise errors[0]
    if thread.is_alive():
        message = f"the notifier has not ended after {_MOST_SECONDS:g} s"
        raise TimeoutError(message)


def _context(context: Context, alert: StoredAlert, word: Word) -> Any:
    """The context for templates of a notifier: `alert` has all fields of the alert."""
    shown = {
        "word": str(word),
        "subject": f"[caretaker] {word}: {' '.join(alert.subject.split())}",
        "text": alert.text,
        "next_step": alert.next_step,
        "table": alert.table,
        "kind": alert.kind,
        "owner": alert.owner,
        "opened_millis": alert.opened_millis,
        "resolved_millis": alert.resolved_millis,
    }
    lines = [alert.subject, alert.text]
    if alert.next_step and alert.resolved_millis is None:
        lines.append(f"Next step: {alert.next_step}")
    if alert.owner:
        lines.append(f"Owner: {alert.owner}")
    body = "".join(f"<p>{html.escape(line)}</p>" for line in lines)
    # Airflow adds the notifier's own fields to the context: other names would be overwritten.
    return {**context, "alert": {**shown, "html": body, "lines": "\n".join(lines)}}


def problem_text(problems: Iterable[str]) -> str:
    """Why messages were not sent, one line each."""
    return "\n".join(["alerts could not be sent:", *(f"  {p}" for p in problems)])
