import { html } from '../frame/html.ts';
import { stackedChart } from './charts/stacked-chart.ts';
import { readDayCounts, sumsOf, topSeries } from './day-counts.ts';
import type { UsagePageDeps } from './usage-data.ts';
import type { UsageTab } from './usage-tab.ts';

const shownImages = 100;

/** Which images are pulled. */
export const pullsTab: UsageTab<UsagePageDeps> = {
  path: '/view/usage/pulls',
  title: 'Pulls',
  hasDays: true,
  tables: ['pulled-images', 'pulled-images-by-day'],
  async read(range, { figures }) {
    const days = await readDayCounts('pulled images', range, figures.dayCounts);
    const sums = await sumsOf(days);
    const images = [...sums];
    const total = images.reduce((sum, [, count]) => sum + count, 0);
    return {
      sections: [
        {
          title: 'Pulls by image',
          intro: html`<p class="minor">A container counts for the image that it was made of. All requests of one client for one name within half a minute are one pull. Of each day, the 1,000 images that came first have their own counts.</p>`,
          chart: stackedChart({
            title: 'Pulls by day and image',
            places: days.map(({ day }) => day),
            series: await topSeries(days, sums, 'Other images'),
          }),
          table: {
            name: 'pulled-images',
            title: 'Pulls by image',
            columns: [
              { name: 'Image', kind: 'text' },
              { name: 'Pulls', kind: 'count' },
              { name: 'Share', kind: 'share' },
            ],
            rows: images.slice(0, shownImages).map(([name, count]) => [name, count, count / total]),
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
            rows: days.flatMap(({ day, counts }) =>
              [...counts].slice(0, shownImages).map(([name, count]) => [day, name, count]),
            ),
          },
          isFolded: true,
        },
      ],
    };
  },
};
