import type { ParameterizedContext } from 'koa';
import { Fault } from '../../foundation/fault.ts';
import { readBearer } from '../../http/index.ts';
import {
  type AccessToken,
  type BuiltInPlatform,
  type KeptCredentials,
  requireScope,
  type TokenHolder,
  type TokenRights,
  type Workspace,
} from '../../platform/built-in/index.ts';

/** What the built-in platform keeps for one of its users. */
export interface OwnThings {
  readonly tokens: readonly AccessToken[];
  /** When the token of this login expires: no token that it creates can expire later. Null for never. */
  readonly until: number | null;
  /** The limits of the token of this login: no token that it creates can do more. */
  readonly rights: TokenRights | undefined;
  /** Those of the user, then those of the workspaces. */
  readonly credentials: readonly KeptCredentials[];
  /** Without their members: the API lists those to administrators only. */
  readonly workspaces: readonly Workspace[];
}

// The limits of tokens and credentials of one user are lower.
const all = { limit: 500, offset: 0 };
const firstWorkspaces = { limit: 50, offset: 0 };
const ofWorkspace = { limit: 50, offset: 0 };

/** Returns the user of the built-in platform whose token is in the request; undefined for other logins. */
export async function holderOf(
  { req }: Pick<ParameterizedContext, 'req'>,
  platform: BuiltInPlatform,
): Promise<TokenHolder | undefined> {
  const token = readBearer(req.headers.authorization);
  if (token === undefined) return undefined;
  try {
    return await platform.holder(token);
  } catch (error) {
    // A token of another platform.
    if (error instanceof Fault && error.kind === 'denied') return undefined;
    throw error;
  }
}

/** As {@link holderOf}, for changes. Throws a `Fault` (403) for other logins, and for a token that may not manage. */
export async function requireHolder(
  ctx: Pick<ParameterizedContext, 'req'>,
  platform: BuiltInPlatform,
): Promise<TokenHolder> {
  const holder = await holderOf(ctx, platform);
  if (holder) {
    requireScope(holder.token.rights, 'manage');
    return holder;
  }
  throw new Fault(
    'denied',
    'Only users of the platform of this server can change this: log in with an access token of it',
    {
      phase: 'credentials',
    },
  );
}

/** Returns what the built-in platform keeps for the user of a login. */
export async function ownThings(
  { user: { id }, token }: TokenHolder,
  { tokens, vault, workspaces }: BuiltInPlatform,
): Promise<OwnThings> {
  const [ownTokens, credentials, own] = await Promise.all([
    tokens.list(id, all),
    vault.list({ kind: 'user', id }, all),
    workspaces.list({ member: id }, firstWorkspaces),
  ]);
  const shared = await Promise.all(
    own.entries.map(workspace => vault.list({ kind: 'workspace', id: workspace.id }, ofWorkspace)),
  );
  return {
    tokens: ownTokens.entries,
    until: token.expiresAt,
    rights: token.rights,
    credentials: [...credentials.entries, ...shared.flatMap(({ entries }) => entries)],
    workspaces: own.entries,
  };
}
