import { html } from '../frame/html.ts';
import { stackedChart } from './charts.ts';
import {
  eachCount,
  type LabelSum,
  largestFirst,
  nameIn,
  readDayCounts,
  topSeries,
} from './day-counts.ts';
import type { UsagePageDeps } from './usage-data.ts';
import { mostRows, type UsageTab } from './usage-tab.ts';

const shownImages = 100;

/** Which images are pulled. */
export const pullsTab: UsageTab<UsagePageDeps> = {
  path: '/view/usage/pulls',
  title: 'Pulls',
  hasDays: true,
  tables: ['pulled-images', 'pulled-images-by-day'],
  async read(range, { figures }) {
    const days = await readDayCounts('pulled images', range, figures.dayCounts);
    const images = await largestFirst(days);
    const total = images.reduce((sum, [, count]) => sum + count, 0);
    const rowOf = ([label, count]: LabelSum) => [nameIn(label), count, count / total];
    return {
      sections: [
        {
          title: 'Pulls by image',
          intro: html`<p class="minor">A container counts for the image that it was made of. All requests of one client for one name within half a minute are one pull. Of each day, the 1,000 images that came first have their own counts.</p>`,
          chart: stackedChart({
            title: 'Pulls by day and image',
            places: days.map(({ day }) => day),
            series: await topSeries(days, images, 'Other images'),
          }),
          table: {
            name: 'pulled-images',
            title: 'Pulls by image',
            columns: [
              { name: 'Image', kind: 'text' },
              { name: 'Pulls', kind: 'count' },
              { name: 'Share', kind: 'share' },
            ],
            rows: images.slice(0, shownImages).map(rowOf),
            all: { count: images.length, rows: () => images.values().map(rowOf) },
          },
        },
        {
          title: 'Images by day',
          table: {
            name: 'pulled-images-by-day',
            title: 'Pulls by day and image',
            columns: [
              { name: 'Day', kind: 'text' },
              { name: 'Image', kind: 'text' },
              { name: 'Pulls', kind: 'count' },
            ],
            rows: [...eachCount(days).take(mostRows)],
            all: {
              count: days.reduce((sum, { counts }) => sum + counts.length, 0),
              rows: () => eachCount(days),
            },
          },
          isFolded: true,
        },
      ],
    };
  },
};
