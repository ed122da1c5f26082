/** The platform inside Sluice: users, workspaces, tokens, credentials and their rights. */

export { keysDocument, readKeys } from '../credentials/keys-document.ts';
export {
  hasScope,
  limitsIn,
  mayPullServed,
  mayUse,
  requireScope,
  type TokenRights,
  type TokenScope,
  tokenScopes,
} from '../token-rights.ts';
export type { AccessToken } from './access-tokens.ts';
export {
  type BuiltInPlatform,
  createBuiltInPlatform,
  type TokenHolder,
} from './built-in-platform.ts';
export type { User, Workspace } from './users.ts';
export { type KeptCredentials, unknownCredentials } from './vault.ts';
