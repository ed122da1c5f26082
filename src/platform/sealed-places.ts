/** The places of secrets. Encryption binds each secret to its place, and it cannot be decrypted for another. */

/** Returns the place of credentials of the built-in platform. */
export function credentialsPlace(
  id: string,
  owner: { readonly kind: string; readonly id: number },
): string {
  return `credentials ${id} of ${owner.kind} ${owner.id}`;
}

/** Returns the place of renewed tokens, by the hash of their grant. */
export function tokensPlace(grantHash: string): string {
  return `platform tokens ${grantHash}`;
}

/** Returns the place of the private key of a pairing. */
export function pairingPlace(id: string): string {
  return `platform pairing ${id}`;
}

/** The place of a grant, which is the right to act for a caller. It accompanies requests and builds. */
export const grantPlace = 'grant';
