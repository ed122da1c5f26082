import type { CommandNode } from './command/command.ts';

/**
 * All commands by name. The module of a command declares it and loads what it works with when it runs, so a start pays
 * for its own command only.
 */
export const commands: Readonly<Record<string, () => Promise<CommandNode>>> = {
  serve: async () => (await import('./serving/serve-command.ts')).serveCommand,
  request: async () => (await import('./containers/request-command.ts')).requestCommand,
  build: async () => (await import('./containers/build-command.ts')).buildCommand,
  name: async () => (await import('./containers/name-command.ts')).nameCommand,
  inspect: async () => (await import('./containers/inspect-command.ts')).inspectCommand,
  logs: async () => (await import('./containers/logs-command.ts')).logsCommand,
  cancel: async () => (await import('./containers/cancel-command.ts')).cancelCommand,
  repositories: async () =>
    (await import('./repositories/repositories-command.ts')).repositoriesCommand,
  gc: async () => (await import('./data/gc-command.ts')).gcCommand,
  verify: async () => (await import('./data/verify-command.ts')).verifyCommand,
  backup: async () => (await import('./data/backup-command.ts')).backupCommand,
  restore: async () => (await import('./data/restore-command.ts')).restoreCommand,
  'rotate-key': async () => (await import('./data/rotate-key-command.ts')).rotateKeyCommand,
  user: async () => (await import('./people/user-command.ts')).userCommand,
  token: async () => (await import('./people/token-command.ts')).tokenCommand,
  workspace: async () => (await import('./people/workspace-command.ts')).workspaceCommand,
  credentials: async () => (await import('./people/credentials-command.ts')).credentialsCommand,
  audit: async () => (await import('./people/audit-command.ts')).auditCommand,
  config: async () => (await import('./serving/config-command.ts')).configCommand,
  completion: async () =>
    (await import('./completion/completion-command.ts')).completionCommand(loadCommands),
  account: async () => (await import('./people/account-command.ts')).accountCommand,
};

/** Loads the declarations of all commands. */
export async function loadCommands(): Promise<Readonly<Record<string, CommandNode>>> {
  const entries = Object.entries(commands).map(async ([name, load]) => [name, await load()]);
  return Object.fromEntries(await Promise.all(entries));
}
