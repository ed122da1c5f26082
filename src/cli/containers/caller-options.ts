import { CommandError, type Option, text, type Values } from '../command.ts';

/** The options of every command that asks for something in somebody's name. */
export const claimOptions: Readonly<Record<string, Option>> = {
  workspace: {
    type: 'string',
    value: 'ID',
    description: 'Number of a workspace whose credentials go first; needs SLUICE_TOKEN',
  },
};

/**
 * The members of a request that say who sends it: the token is in the environment, where nobody else sees it.
 * Throws {@link CommandError} for a workspace without a token, with which it would mean nothing.
 */
export function claimOf(values: Values) {
  const token = process.env.SLUICE_TOKEN || undefined;
  const workspace = text(values, 'workspace');
  if (workspace !== undefined && token === undefined) {
    throw new CommandError('--workspace needs the access token of a member: set SLUICE_TOKEN', 2);
  }
  return { platformAccessToken: token, platformWorkspaceId: workspace };
}
