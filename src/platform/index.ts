/** Identities of callers, and the client of the workflow platform. */

export {
  type Claim,
  createIdentities,
  homeRights,
  type Identities,
  type Identity,
  type SealedGrant,
} from './identities.ts';
export type { Pairing } from './pairing/pairing.ts';
export { createPlatformClient } from './platforms.ts';
