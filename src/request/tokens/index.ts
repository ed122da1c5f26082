/** Tokens of container requests, and the requests that they stand for. */

export {
  type ContainerToken,
  createToken,
  isNameId,
  type NameId,
  nameIdOfToken,
  tokenLabel,
} from './container-token.ts';
export { neededRoots } from './needed-roots.ts';
export { createRunWatch } from './run-watch.ts';
export {
  createTokenReader,
  createTokenRegistry,
  readStoredRequest,
  type TokenReader,
  type TokenRegistry,
} from './token-registry.ts';
