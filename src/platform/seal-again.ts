import type { Resealed, SealedRow, SealedRowStore, SecretBox } from '../storage/rows/index.ts';

/** Result of encrypting the secrets again. */
interface SealedAgain {
  readonly sealed: number;
  /** Number of secrets that no key decrypts: they were lost before. */
  readonly unreadable: number;
}

// Replacing this many takes some milliseconds.
const pageSize = 64;

/** Encrypts every secret with the newest key, if it is encrypted with an older one. */
export async function sealAgain(rows: SealedRowStore, box: SecretBox): Promise<SealedAgain> {
  let sealedCount = 0;
  let unreadable = 0;
  let page = await rows.after(undefined, pageSize);
  while (page.length > 0) {
    const replaced: Resealed[] = [];
    for (const { row, sealed, place } of page) {
      if (sealed.startsWith(box.prefix)) continue;
      const text = opened(box, sealed, placeOf(row));
      if (text === undefined) unreadable += 1;
      else replaced.push({ place, sealed, resealed: box.seal(text, placeOf(row)) });
    }
    if (replaced.length > 0) await rows.replace(replaced);
    sealedCount += replaced.length;
    page = await rows.after(page.at(-1)?.place, pageSize);
  }
  return { sealed: sealedCount, unreadable };
}

/** Returns the text of a secret; undefined if no key decrypts it. */
function opened(box: SecretBox, sealed: string, place: string): string | undefined {
  try {
    return box.open(sealed, place);
  } catch {
    return undefined;
  }
}

/** Returns the place of a secret. Encryption binds each secret to its place, and it cannot be decrypted for another. */
function placeOf(row: SealedRow): string {
  switch (row.table) {
    case 'credentials':
      return credentialsPlace(row.id, row.owner);
    case 'tokens':
      return tokensPlace(row.hash);
    case 'pairings':
      return pairingPlace(row.id);
    case 'builds':
      return grantPlace;
  }
}

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
