/** Where secrets are kept: each is bound to its place when it is encrypted, and opened nowhere else. */

/** The place of credentials of the built-in platform. */
export function credentialsPlace(
  id: string,
  owner: { readonly kind: string; readonly id: number },
): string {
  return `credentials ${id} of ${owner.kind} ${owner.id}`;
}

/** The place of renewed tokens, by the hash of the grant they belong to. */
export function tokensPlace(grantHash: string): string {
  return `platform tokens ${grantHash}`;
}

/** The place of the private key of a pairing. */
export function pairingPlace(id: string): string {
  return `platform pairing ${id}`;
}

/** The place of what it takes to act for a caller: it goes along with requests and builds. */
export const grantPlace = 'grant';
