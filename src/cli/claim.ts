import { type Option, text, type Values } from './command.ts';

/** The options of every command that asks for something in somebody's name. */
export const claimOptions: Readonly<Record<string, Option>> = {
  workspace: {
    type: 'string',
    value: 'ID',
    description: 'Use the credentials of a workspace first; whose token it is says SLUICE_TOKEN',
  },
};

/** The members of a request that say who sends it: the token is in the environment, where nobody else sees it. */
export function claimOf(values: Values) {
  return {
    platformAccessToken: process.env.SLUICE_TOKEN || undefined,
    platformWorkspaceId: text(values, 'workspace'),
  };
}
