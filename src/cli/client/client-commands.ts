import type { CommandNode, Commands } from '../command/command.ts';
import { loadAll } from '../command/run-command-line.ts';

/** The commands that require only a server: those of the package sluice-cli. */
export const clientCommands = {
  request: async () => (await import('../containers/request-command.ts')).requestCommand,
  build: async () => (await import('../containers/build-command.ts')).buildCommand,
  mirror: async () => (await import('../containers/build-command.ts')).mirrorCommand,
  inspect: async () => (await import('../containers/inspect-command.ts')).inspectCommand,
  files: async () => (await import('../containers/inspect-command.ts')).filesCommand,
  scan: async () => (await import('../containers/scan-command.ts')).scanCommand,
  sbom: async () => (await import('../containers/scan-command.ts')).sbomCommand,
  logs: async () => (await import('../containers/logs-command.ts')).logsCommand,
  builds: async () => (await import('../finding/builds-command.ts')).buildsCommand,
  search: async () => (await import('../finding/search-command.ts')).searchCommand,
  open: async () => (await import('../open-command.ts')).openCommand,
  cancel: async () => (await import('../containers/logs-command.ts')).cancelCommand,
  containers: async () => (await import('../containers/containers-command.ts')).containersCommand,
  repositories: async () => (await import('../repositories-command.ts')).repositoriesCommand,
  user: async () => (await import('../people/user-command.ts')).userCommand,
  token: async () => (await import('../people/token-command.ts')).tokenCommand,
  workspace: async () => (await import('../people/user-command.ts')).workspaceCommand,
  credentials: async () => (await import('../people/credentials-command.ts')).credentialsCommand,
  audit: async () => (await import('../people/audit-command.ts')).auditCommand,
  messages: async () => (await import('../people/messages-command.ts')).messagesCommand,
  completion: async (): Promise<CommandNode> =>
    (await import('../completion/completion-command.ts')).completionCommand(() =>
      loadAll(clientCommands),
    ),
} satisfies Commands;
