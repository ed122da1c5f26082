import type { ContentStore } from '../../../storage/content/index.ts';
import type { ContentReader } from '../../../storage/objects/index.ts';
import { LeaderOnly, leaderOnly } from './leader-only.ts';

/** Returns the content of the site as a store that keeps nothing: documents that it is given stay in the memory of their users. */
export function createReadContent(reader: ContentReader): ContentStore {
  const changes = leaderOnly('it changes content');
  return {
    size: reader.size,
    read: reader.read,
    open: reader.open,
    hasLinks: reader.hasLinks,
    link: reader.link,
    isFresh: reader.isFresh,
    // The leader has entered what its rows refer to.
    claim: async () => true,
    async write() {},
    async settle() {},
    async close() {},
    prove: changes,
    scrub: changes,
    examine: changes,
    lease: changes,
    ingest: changes,
    resume: changes,
    drop: changes,
    scratch: changes,
    remove: changes,
    discard: changes,
    discardDamaged: changes,
    list() {
      throw new LeaderOnly('it lists content');
    },
    removeLeftovers: changes,
    endTransfers: changes,
    removeStrayDrafts: changes,
    removeDamaged: changes,
  };
}
