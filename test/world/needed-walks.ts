import { neededRoots } from '../../src/request/tokens/needed-roots.ts';
import { readStoredRequest } from '../../src/request/tokens/token-registry.ts';
import { markRequests } from '../../src/server/upkeep/sweep/marks.ts';
import type { Rows } from '../../src/storage/rows/rows.ts';
import { eachRow } from '../../src/storage/rows/small-steps.ts';

const empty = { read: async () => undefined } as unknown as Parameters<typeof markRequests>[0];

/** Returns the images and layers that a sweep marks for the live requests, and those that a walk of all live requests finds. */
export async function neededWalks({ requests }: Pick<Rows, 'requests'>, now: number) {
  const swept = new Set<string>();
  await markRequests(empty, requests, now, {
    add: digest => swept.add(digest),
    mayHave: digest => swept.has(digest),
  });
  const needed = new Set<string>();
  let place = { expiresAt: now, id: Number.MAX_SAFE_INTEGER };
  const all = eachRow(async rows => {
    const page = await requests.endingAfter(place, rows);
    place = page.at(-1) ?? place;
    return page;
  });
  for await (const { body } of all) {
    if (body === null) continue;
    const { images, layers } = neededRoots(readStoredRequest(body));
    for (const digest of [...images.map(one => one.digest), ...layers]) needed.add(digest);
  }
  return { swept: [...swept].sort(), needed: [...needed].sort() };
}
