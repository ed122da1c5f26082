import { CommandError, type Option, text, type Values } from '../command/command.ts';
import { get } from '../server/server-client.ts';

/** The options of every command that acts for a user. */
export const claimOptions: Readonly<Record<string, Option>> = {
  workspace: {
    type: 'string',
    value: 'NAME|NUMBER',
    description: 'Workspace whose registry credentials are tried first. Requires SLUICE_TOKEN',
  },
};

/**
 * Returns the members of a request that identify the caller. The token comes from the environment, where other users
 * of the machine cannot see it. Throws {@link CommandError} for a workspace without a token, and for an unknown
 * workspace.
 */
export async function claimOf(values: Values) {
  const token = process.env.SLUICE_TOKEN || undefined;
  const workspace = text(values, 'workspace');
  if (workspace === undefined) return { platformAccessToken: token };
  if (token === undefined) {
    throw new CommandError(
      '--workspace requires the access token of a member: set SLUICE_TOKEN',
      2,
    );
  }
  const number = /^\d+$/.test(workspace) ? workspace : await numberOf(values, workspace, token);
  return { platformAccessToken: token, platformWorkspaceId: number };
}

interface WorkspaceList {
  readonly orgsAndWorkspaces: readonly {
    readonly workspaceId: number | null;
    readonly workspaceName: string | null;
  }[];
}

/** Asks the platform of the server for the number of a workspace of the token's user. */
async function numberOf(values: Values, name: string, token: string): Promise<string> {
  const headers = { authorization: `Bearer ${token}` };
  const { user } = (await get(values, '/platform/user-info', headers)) as { user: { id: number } };
  const path = `/platform/user/${user.id}/workspaces`;
  const { orgsAndWorkspaces } = (await get(values, path, headers)) as WorkspaceList;
  const found = orgsAndWorkspaces.find(({ workspaceName }) => workspaceName === name);
  if (found?.workspaceId != null) return String(found.workspaceId);
  throw new CommandError(
    `You are not a member of a workspace '${name}' on this server. For a workspace of another platform, give its number`,
  );
}
