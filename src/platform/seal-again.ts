import type { SealedRow, SealedRowStore } from '../storage/rows/secrets/sealed-rows.ts';
import type { SecretBox } from '../storage/rows/secrets/secret-box.ts';
import { credentialsPlace, grantPlace, pairingPlace, tokensPlace } from './sealed-places.ts';

/** What became of the secrets. */
export interface SealedAgain {
  readonly sealed: number;
  /** Those that no key opens: they were lost before. */
  readonly unreadable: number;
}

/** Encrypts every secret that has not been encrypted with the newest key again, with that key. */
export async function sealAgain(rows: SealedRowStore, box: SecretBox): Promise<SealedAgain> {
  let sealedCount = 0;
  let unreadable = 0;
  await rows.replace((row, sealed) => {
    if (sealed.startsWith(box.prefix)) return undefined;
    const place = placeOf(row);
    let text: string;
    try {
      text = box.open(sealed, place);
    } catch {
      unreadable += 1;
      return undefined;
    }
    sealedCount += 1;
    return box.seal(text, place);
  });
  return { sealed: sealedCount, unreadable };
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
