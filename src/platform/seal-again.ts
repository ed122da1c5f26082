import type { Resealed, SealedRow, SealedRowStore, SecretBox } from '../storage/rows/index.ts';
import { credentialsPlace, grantPlace, pairingPlace, tokensPlace } from './sealed-places.ts';

/** Result of encrypting the secrets again. */
export interface SealedAgain {
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
