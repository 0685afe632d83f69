"""`rlaunch doctor`: look at this installation and say what is wrong with it."""

# No `from __future__ import annotations`: typer reads these annotations as they are.
from rlaunch.cli.flags import Json


def command(json: Json = False) -> int:
    """Check this installation.

    Versions, plugins, profiles, the state directory, git, Ray; 3 where something is wrong.
    """
    from rlaunch import doctor
    from rlaunch.cli.speak import Voice, table

    voice = Voice(json=json)
    checks = tuple(doctor.checks())
    if json:
        from rlaunch.documents import plain
        from rlaunch.shapes import DoctorDocument

        voice.document(plain(DoctorDocument("rlaunch.doctor/1", checks)))
    else:
        voice.put(table([(check.level, check.name, check.detail) for check in checks]))
    return 0 if all(check.ok for check in checks) else 3
