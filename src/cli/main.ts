import { parseArgs } from 'node:util';
import { readVersion } from '../version.ts';
import { accountCommand } from './account.ts';
import { auditCommand } from './audit.ts';
import { backupCommand } from './backup.ts';
import { buildCommand } from './build.ts';
import { cancelCommand } from './cancel.ts';
import { type Command, CommandError, helpOf } from './command.ts';
import { credentialsCommand } from './credentials.ts';
import { gcCommand } from './gc.ts';
import { inspectCommand } from './inspect.ts';
import { logsCommand } from './logs.ts';
import { nameCommand } from './name.ts';
import { requestCommand } from './request.ts';
import { restoreCommand } from './restore.ts';
import { rotateKeyCommand } from './rotate-key.ts';
import { serveCommand } from './serve-command.ts';
import { tokenCommand } from './token.ts';
import { userCommand } from './user.ts';
import { verifyCommand } from './verify.ts';
import { wakeThreads } from './wake-threads.ts';
import { workspaceCommand } from './workspace.ts';

const commands: Readonly<Record<string, Command>> = {
  serve: serveCommand,
  request: requestCommand,
  build: buildCommand,
  name: nameCommand,
  logs: logsCommand,
  cancel: cancelCommand,
  inspect: inspectCommand,
  gc: gcCommand,
  verify: verifyCommand,
  backup: backupCommand,
  restore: restoreCommand,
  account: accountCommand,
  user: userCommand,
  token: tokenCommand,
  workspace: workspaceCommand,
  credentials: credentialsCommand,
  audit: auditCommand,
  'rotate-key': rotateKeyCommand,
};

process.exitCode = await main(process.argv.slice(2));

async function main([name = '--help', ...args]: string[]): Promise<number> {
  const [asked] = args;
  if (name === 'help' && asked !== undefined) return main([asked, '--help']);
  if (['--help', '-h', 'help'].includes(name)) {
    console.log(overview());
    return 0;
  }
  if (name === '--version') {
    console.log(readVersion().version);
    return 0;
  }
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  try {
    if (!command) throw new CommandError(`No such command: ${name}\n\n${overview()}`, 2);
    wakeThreads();
    return await runCommand(command, args);
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

function overview(): string {
  const rows = Object.entries(commands).map(
    ([name, { summary }]) => `  ${name.padEnd(12)} ${summary}`,
  );
  return [
    'Usage: sluice COMMAND [options]',
    '',
    ...rows,
    '',
    'sluice COMMAND --help tells the options.',
  ].join('\n');
}
