import { z } from 'zod';
import { dayOf, tallyKinds } from '../../foundation/telemetry/counted.ts';
import { goArchitecture, namedArchitectures } from '../../oci/naming.ts';
import {
  type DayCountStore,
  type Metric,
  mostNames,
  otherNames,
  type UsageStore,
} from '../../storage/rows/index.ts';
import { mountedAlias } from '../aliases.ts';
import { ok } from '../route/declaration.ts';
import { apiRoute } from './api-route.ts';
import { metricResponseSchema } from './container/response-schema.ts';

export interface MetricsDeps {
  readonly usage: UsageStore;
}

const metrics: ReadonlyArray<{ id: string; path: string; metric: Metric; alias?: string }> = [
  { id: 'Builds', path: 'builds', metric: 'builds' },
  { id: 'Mirrors', path: 'mirrors', metric: 'mirrors' },
  { id: 'Scans', path: 'scans', metric: 'scans' },
  { id: 'Pulls', path: 'pulls', metric: 'pulls' },
  { id: 'MountedPulls', path: 'mounted/pulls', metric: 'mounted', alias: `${mountedAlias}/pulls` },
];

const versions = [
  { version: 'v1alpha2', id: 'count' },
  { version: 'v1alpha3', id: 'countByOrganisation' },
];

const dayForm = 'must be a day of the form yyyy-mm-dd';
const metricQuery = z.object({
  date: z
    .union([z.literal(''), z.iso.date(dayForm)], dayForm)
    .optional()
    .describe('Day, yyyy-mm-dd (UTC)'),
  org: z.string().optional().describe('Domain of an organisation; case does not matter'),
});
const counted = namedArchitectures.flatMap(([name, { uname, spellings }]) => [
  name,
  uname,
  ...spellings,
]);
const architectures = [...counted, 'arm'];
const archQuery = metricQuery.extend({
  arch: z
    .enum(['', ...architectures], `must be one of ${architectures.join(', ')}`)
    .optional()
    .describe(
      'Architecture. Counts requests that name one platform, and builds of recipes without one, which are for amd64',
    ),
});

/**
 * Routes of usage metrics. Source: container service specification, sections 2.9 and 4, rules 2 to 6. The later version
 * of the reference service returns the day of an organisation in the same form as all other responses.
 */
export const metricsRoutes = versions.flatMap(({ version, id }) =>
  metrics.map(({ id: name, path, metric, alias }) =>
    apiRoute({
      id: `${id}${name}`,
      method: 'get',
      path: `/${version}/metrics/${path}`,
      ...(alias === undefined ? {} : { aliases: [`/${version}/metrics/${alias}`] }),
      tag: 'Metrics',
      summary: `Usage: ${path}`,
      access: 'administrator',
      query: version === 'v1alpha3' ? archQuery : metricQuery,
      responses: ok(metricResponseSchema, 'The count', {
        metric,
        count: 7,
        orgs: { 'example.org': 7 },
      }),
      async run({ query: asked }, { usage }: MetricsDeps) {
        const { date, org: sentOrg, arch: sentArch } = asked as z.output<typeof archQuery>;
        const [day, org] = [date || undefined, sentOrg?.toLowerCase() || undefined];
        const arch = sentArch ? goArchitecture(sentArch) : undefined;
        const query = { day, org, arch };
        const count = await usage.count(metric, query);
        if (version === 'v1alpha2' && day !== undefined && org !== undefined) return { count };
        const orgs = { ...(org && { [org]: 0 }), ...(await usage.countByOrg(metric, query)) };
        return { metric, count, ...(arch === undefined ? {} : { arch }), orgs };
      },
    }),
  ),
);

export interface FigureDeps {
  readonly dayCounts: Pick<DayCountStore, 'ofDay'>;
}

/** What is counted, by the name in the address: `pulled-images` for `pulled images`. */
const figureKinds = new Map(tallyKinds.map(kind => [kind.replaceAll(' ', '-'), kind]));

/** The counts that the pages of usage show, for programs: one day of one kind, so that a response is bounded. */
export const figureRoutes = [
  apiRoute({
    id: 'getFigures',
    method: 'get',
    path: '/v1alpha1/figures/{kind}',
    tag: 'Metrics',
    summary: 'Counts of one day by name, such as pulls by image',
    access: 'administrator',
    params: { kind: z.enum([...figureKinds.keys()]).describe('What is counted') },
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
      const kind = figureKinds.get(params.kind) ?? 'pulled images';
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
