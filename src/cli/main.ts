import { parseArgs } from 'node:util';
import { readVersion } from '../foundation/version.ts';
import { type Command, CommandError, helpOf } from './command.ts';
import { wakeThreads } from './wake-threads.ts';

/** A command's modules are loaded when it is called: a start pays for its own alone. */
const commands: Readonly<Record<string, () => Promise<Command>>> = {
  serve: async () => (await import('./serve-command.ts')).serveCommand,
  request: async () => (await import('./containers/request-command.ts')).requestCommand,
  build: async () => (await import('./containers/build-command.ts')).buildCommand,
  name: async () => (await import('./containers/name-command.ts')).nameCommand,
  logs: async () => (await import('./containers/logs-command.ts')).logsCommand,
  cancel: async () => (await import('./containers/cancel-command.ts')).cancelCommand,
  inspect: async () => (await import('./containers/inspect-command.ts')).inspectCommand,
  gc: async () => (await import('./data/gc-command.ts')).gcCommand,
  verify: async () => (await import('./data/verify-command.ts')).verifyCommand,
  backup: async () => (await import('./data/backup-command.ts')).backupCommand,
  restore: async () => (await import('./data/restore-command.ts')).restoreCommand,
  account: async () => (await import('./people/account-command.ts')).accountCommand,
  user: async () => (await import('./people/user-command.ts')).userCommand,
  token: async () => (await import('./people/token-command.ts')).tokenCommand,
  workspace: async () => (await import('./people/workspace-command.ts')).workspaceCommand,
  credentials: async () => (await import('./people/credentials-command.ts')).credentialsCommand,
  audit: async () => (await import('./people/audit-command.ts')).auditCommand,
  'rotate-key': async () => (await import('./data/rotate-key-command.ts')).rotateKeyCommand,
};

process.exitCode = await main(process.argv.slice(2));

async function main([name = '--help', ...args]: string[]): Promise<number> {
  const [asked] = args;
  if (name === 'help' && asked !== undefined) return main([asked, '--help']);
  if (['--help', '-h', 'help'].includes(name)) {
    console.log(await overview());
    return 0;
  }
  if (name === '--version') {
    console.log(readVersion().version);
    return 0;
  }
  const load = Object.hasOwn(commands, name) ? commands[name] : undefined;
  try {
    if (!load) throw new CommandError(`No such command: ${name}\n\n${await overview()}`, 2);
    wakeThreads();
    return await runCommand(await load(), args);
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    console.error(error.message);
    return error.exitCode;
  }
}

async function runCommand(command: Command, args: string[]): Promise<number> {
  const help = { type: 'boolean', short: 'h', description: 'Show this text' } as const;
  const full = { ...command, options: { ...command.options, help } };
  const { values, positionals } = parse(full, args);
  if (values.help) {
    console.log(helpOf(full));
    return 0;
  }
  return command.run(values, positionals);
}

function parse(command: Command, args: string[]) {
  try {
    return parseArgs({ args, options: command.options, allowPositionals: true });
  } catch (error) {
    // What Node says behind the first sentence is advice on arguments that begin with a dash.
    const [why] = (error instanceof Error ? error.message : String(error)).split('. ');
    throw new CommandError(`${why}\n\n${helpOf(command)}`, 2);
  }
}

async function overview(): Promise<string> {
  const rows = await Promise.all(
    Object.entries(commands).map(
      async ([name, load]) => `  ${name.padEnd(12)} ${(await load()).summary}`,
    ),
  );
  return [
    'Usage: sluice COMMAND [options]',
    '',
    ...rows,
    '',
    'sluice COMMAND --help tells the options.',
  ].join('\n');
}
