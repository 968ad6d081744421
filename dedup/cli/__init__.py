"""The command line.

Invariants:
  - A command is imported only when it is called; `dedup --help` and usage errors import none.
  - Results go to stdout, errors to stderr: "dedup: what, where, what to do next", in a line or two.
    Only --debug shows a traceback.
  - The exit code is 0 (done), 1 (failed), 2 (usage) or 130 (Ctrl-C).
"""

import sys
from importlib import import_module
from typing import Any

import click

from dedup.cli import terminal

INTERRUPTED = 130  # as shells report a process that SIGINT ended

# The module of each command, and its line in the help; the function has the command's name.
_COMMANDS = {
    "demo": ("cli.demo", "Crawl a sample site with Scrapy and show what is dropped."),
    "fingerprint": ("cli.pages", "Print the fingerprints of pages."),
    "text": ("cli.pages", "Print the main content of pages, a block a line."),
    "compare": ("cli.pages", "Say whether two pages are near-duplicates, and why."),
    "find-all": ("cli.find", "List all pairs of fingerprints within a distance."),
    "find-clusters": ("cli.find", "List the clusters of fingerprints within a distance."),
    "scan": ("cli.scan", "Find near-duplicates in WARC, Parquet, JSONL or HTML files."),
    "audit": ("cli.audit", "Judge a sample of the documents that another tool removed."),
    "why": ("cli.why", "Say why a crawl dropped a page, and what would keep it."),
    "urls": ("cli.urls", "Print rules about URLs that a crawl has learned."),
    "evaluate": ("cli.evaluate", "Measure precision and recall on labelled pages."),
    "plan": ("cli.plan", "Show the memory and speed of tables for your documents."),
    "worker": ("cli.worker", "Split a Kafka topic into unique pages and duplicates."),
    "serve": ("cli.serve", "Run the table service: one memory for many crawlers."),
    "store": (
        "cli.store",
        "Inspect and maintain a store: info, verify, export ...",
    ),
}


# The commands in the help, by who uses them.
_GROUPS = {
    "Crawls and pages": ("demo", "scan", "audit", "compare", "why", "urls", "fingerprint", "text"),
    "Services and stores": ("serve", "worker", "store", "plan"),
    "Lists of fingerprints": ("find-all", "find-clusters"),
    "Measurements": ("evaluate",),
}

_ADDRESSES = ("--port", "--host", "--bind")  # what other servers call it

# A group without a command raises this, with its help. (click 8.1 has no name for it.)
_HELP: tuple[type[Exception], ...] = tuple(
    filter(None, [getattr(click.exceptions, "NoArgsIsHelpError", None)])
)


class _Commands(terminal.CommandGroup):
    """A group that loads its commands by name, and the one place where exceptions become errors."""

    _called = "dedup"  # and the command; for errors of click that do not say whose they are

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        return list(_COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002  (click's signature)
        cmd_name: str,
    ) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"dedup.{_COMMANDS[cmd_name][0]}")
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002  (click's signature)
        formatter: click.HelpFormatter,
    ) -> None:
        width = max(map(len, _COMMANDS))
        for title, names in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), _COMMANDS[name][1]) for name in names])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command; `help COMMAND` is `COMMAND --help`."""
        if args[0] == "help":
            args = [*args[1:], "--help"]
            if len(args) == 1:
                click.echo(ctx.get_help())
                ctx.exit()
        if args[0] in _COMMANDS:
            self._called = f"dedup {args[0]}"
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **options: Any) -> Any:
        """Do what click does, but report a wrong usage in two lines: what is wrong, what to do next."""
        alone = options.get("standalone_mode", True)
        options["standalone_mode"] = False
        if not alone:
            return super().main(*args, **options)
        try:
            code = super().main(*args, **options)
        except click.UsageError as error:
            if isinstance(error, click.NoSuchOption) and error.option_name in _ADDRESSES:
                meant = " Did you mean --listen HOST:PORT?" if self._called == "dedup serve" else ""
                error = click.UsageError(f"No such option {error.option_name!r}.{meant}", error.ctx)
            if isinstance(error, _HELP):
                error.show()
            else:
                terminal.error(error.format_message())
                path = error.ctx.command_path if error.ctx is not None else self._called
                click.echo(f"Try '{path} --help'.", err=True)
            code = error.exit_code
        except click.ClickException as error:
            terminal.error(error.format_message())
            code = error.exit_code
        except click.Abort:
            click.echo(err=True)
            code = 1
        except KeyboardInterrupt:  # before the command line was read
            terminal.error("interrupted")
            code = INTERRUPTED
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, EOFError):
            raise  # click's own way to end
        except KeyboardInterrupt:
            terminal.status.clear()
            click.echo(err=True)  # after ^C
            advice = terminal.said("resume")
            terminal.error(f"interrupted; {advice}" if advice else "interrupted")
            ctx.exit(INTERRUPTED)
        except BrokenPipeError as error:
            if not terminal.reader_has_gone():  # a connection of the command's own
                ctx.exit(terminal.report(error))
            terminal.abandon_output()
            ctx.exit(0)
        except Exception as error:  # noqa: BLE001 - every failure ends in one line and an exit code
            ctx.exit(terminal.report(error))


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: dedup compare old.html new.html",
)
@click.version_option(
    None,
    "-V",
    "--version",
    package_name="crawl-dedup",
    prog_name="dedup",
    message="%(prog)s %(version)s",
)
@click.option("--debug", is_flag=True, help="Show a traceback with every error.")
def main(debug: bool) -> None:
    """Near-duplicate detection for web crawlers.

    `dedup help COMMAND` describes a command and its options.
    """
