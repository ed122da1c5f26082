import { z } from 'zod';
import { dayOf, tallyKinds } from '../../foundation/telemetry/counted.ts';
import { type DayCountStore, mostNames, otherNames } from '../../storage/rows/index.ts';
import { ok } from '../route/declaration.ts';
import { apiRoute } from './api-route.ts';

export interface FigureDeps {
  readonly dayCounts: Pick<DayCountStore, 'ofDay'>;
}

/** By the name in the address: `pulled-images` for `pulled images`. */
const kinds = new Map(tallyKinds.map(kind => [kind.replaceAll(' ', '-'), kind]));

/** The counts that the pages of usage show, for programs: one day of one kind, so that a response is bounded. */
export const figureRoutes = [
  apiRoute({
    id: 'getFigures',
    method: 'get',
    path: '/v1alpha1/figures/{kind}',
    tag: 'Metrics',
    summary: 'Counts of one day by name, such as pulls by image',
    access: 'administrator',
    params: { kind: z.enum([...kinds.keys()]).describe('What is counted') },
    query: z.object({
      date: z.iso.date().optional().describe('Day, yyyy-mm-dd (UTC). Default: today'),
    }),
    responses: ok(
      z.object({
        date: z.iso.date(),
        counts: z
          .array(
            z.object({
              name: z.string().describe('The values of the labels, with spaces between them'),
              labels: z
                .record(z.string(), z.string())
                .describe('What is counted, such as `recipe` and `result` of `build-results`'),
              count: z.number().int(),
            }),
          )
          .describe(
            `The largest first. A day has at most ${mostNames} names; the others share the name \`${otherNames}\``,
          ),
      }),
      'The counts of the day',
      {
        date: '2026-01-31',
        counts: [
          {
            name: 'docker.io/library/alpine',
            labels: { image: 'docker.io/library/alpine' },
            count: 7,
          },
        ],
      },
    ),
    async run({ params, query }, { dayCounts }: FigureDeps) {
      const { date = dayOf(Date.now()) } = query;
      const kind = kinds.get(params.kind) ?? 'pulled images';
      const found = await dayCounts.ofDay(kind, date);
      return {
        date,
        counts: found.map(({ labels, count }) => ({ name: nameOf(labels), labels, count })),
      };
    },
  }),
];

function nameOf(labels: Readonly<Record<string, string>>): string {
  const values = Object.values(labels);
  return values.every(value => value === otherNames) ? otherNames : values.join(' ');
}
