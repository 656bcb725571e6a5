"""What `./caretaker` needs before anything is installed; the standard library only.

::

    ./caretaker         shell: finds Python, the environment and Java, then passes its arguments on
    bootstrap/
      environment.py    makes the environment from requirements.lock, once, whoever calls first
      lock_file.py      what the lock asks for on this machine
      java.py           finds a JDK, or gets one through the package manager at hand
      checks.py         ./caretaker test
      pip-*.whl         pip itself, unmodified (docs/decisions/0003-bootstrap.md)
"""
