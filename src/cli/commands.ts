import { clientCommands } from './client/client-commands.ts';
import type { Commands } from './command/command.ts';
import { loadAll } from './command/run-command-line.ts';

/** All commands, in the order of the help. */
export const commands: Commands = {
  serve: async () => (await import('./serving/serve-command.ts')).serveCommand,
  request: clientCommands.request,
  build: clientCommands.build,
  mirror: clientCommands.mirror,
  name: async () => (await import('./containers/name-command.ts')).nameCommand,
  inspect: clientCommands.inspect,
  files: clientCommands.files,
  scan: clientCommands.scan,
  sbom: clientCommands.sbom,
  logs: clientCommands.logs,
  builds: clientCommands.builds,
  search: clientCommands.search,
  open: clientCommands.open,
  cancel: clientCommands.cancel,
  containers: clientCommands.containers,
  repositories: clientCommands.repositories,
  gc: async () => (await import('./data/data-commands.ts')).gcCommand,
  verify: async () => (await import('./data/data-commands.ts')).verifyCommand,
  backup: async () => (await import('./data/data-commands.ts')).backupCommand,
  restore: async () => (await import('./data/data-commands.ts')).restoreCommand,
  migrate: async () => (await import('./data/data-commands.ts')).migrateCommand,
  replicas: async () => (await import('./data/replicas-command.ts')).replicasCommand,
  'rotate-key': async () => (await import('./data/data-commands.ts')).rotateKeyCommand,
  user: clientCommands.user,
  token: clientCommands.token,
  workspace: clientCommands.workspace,
  credentials: clientCommands.credentials,
  audit: clientCommands.audit,
  messages: clientCommands.messages,
  config: async () => (await import('./serving/config-command.ts')).configCommand,
  completion: async () =>
    (await import('./completion/completion-command.ts')).completionCommand(() => loadAll(commands)),
  account: async () => (await import('./people/account-command.ts')).accountCommand,
};
