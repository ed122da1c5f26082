import type { Digest } from '../../../oci/digest.ts';
import type { RowDatabase } from '../driver/row-database.ts';
import { together } from '../driver/together.ts';

/** Container requests and content kept for callers without an access token. */
export interface AnonymousUse {
  readonly requests: number;
  /** Number of contents, each a file. */
  readonly files: number;
  /** Bytes of the content and of the requests. */
  readonly bytes: number;
}

/** Records which content callers without an access token have brought here, by their network. */
export interface AnonymousUseStore {
  /** Returns the use of one network, or of all. */
  of(network: string | undefined): Promise<AnonymousUse>;
  /** Returns the use of one network, and of all. */
  ofBoth(network: string): Promise<readonly [own: AnonymousUse, all: AnonymousUse]>;
  /** Enters content that was not here before. */
  enter(digest: Digest, network: string, size: number): Promise<void>;
  /** Subtracts content that was removed. */
  forget(digest: Digest): Promise<void>;
  /** Returns up to so many digests after one, in their order. */
  digestsAfter(digest: string, limit: number): Promise<Digest[]>;
}

const nothing: AnonymousUse = { requests: 0, files: 0, bytes: 0 };
/** The row that has the sums of all networks. */
export const allNetworks = '';

export function createAnonymousUseStore(database: RowDatabase): AnonymousUseStore {
  const of = database.sql<AnonymousUse>(
    'SELECT requests, files, bytes FROM anonymous_use WHERE network = ?',
  );
  const enter = database.sql(
    'INSERT INTO anonymous_content (digest, network, size) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
  );
  const forget = database.sql('DELETE FROM anonymous_content WHERE digest = ?');
  const digestsAfter = database
    .sql('SELECT digest FROM anonymous_content WHERE digest > ? ORDER BY digest LIMIT ?')
    .pluck<Digest>();
  return {
    of: async network => (await database.read(of.get(network ?? allNetworks))) ?? nothing,
    async ofBoth(network) {
      const [own, all] = await database.read(together([of.get(network), of.get(allNetworks)]));
      return [own ?? nothing, all ?? nothing];
    },
    enter: (digest, network, size) => database.commit(() => enter.run(digest, network, size)),
    forget: digest => database.commit(() => forget.run(digest)),
    digestsAfter: (digest, limit) => database.read(digestsAfter.all(digest, limit)),
  };
}
