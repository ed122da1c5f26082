import { countText } from '../../frame/formats.ts';
import { html } from '../../frame/html.ts';
import { readDayCounts } from '../day-counts.ts';
import type { UsagePageDeps } from '../usage-data.ts';
import type { UsageTab } from '../usage-tab.ts';
import { queueSection } from './build-queue.ts';
import { resultsSection } from './build-results.ts';
import { timesSections } from './build-times.ts';
import { cacheSection } from './cache-hits.ts';

/** How builds wait, run and end, and what caches save. */
export const buildsTab: UsageTab<UsagePageDeps> = {
  path: '/view/usage/builds',
  title: 'Builds',
  hasDays: true,
  tables: ['queue', 'build-results', 'build-times-by-recipe', 'build-times', 'cache-hits'],
  async read(range, { builds, operation, figures }) {
    const read = (kind: Parameters<typeof readDayCounts>[0]) =>
      readDayCounts(kind, range, figures.dayCounts);
    const { running, waiting } = builds.load();
    const { maxRunning, maxWaiting } = operation;
    return {
      now: html`<p>Now: <strong>${countText(running)}</strong> builds run (at most ${countText(maxRunning)}), <strong>${countText(waiting)}</strong> wait. At most ${countText(maxWaiting)} run and wait in all. <a href="/view/builds?state=running">Running builds</a> · <a href="/view/builds?state=queued">waiting builds</a></p>`,
      sections: [
        await queueSection(range, figures.queue),
        resultsSection(await read('build results')),
        ...(await timesSections(await read('build times'))),
        await cacheSection({
          requests: await read('build requests'),
          steps: await read('build steps'),
          layers: await read('package layers'),
          blobs: await read('cached blobs'),
        }),
      ],
    };
  },
};
