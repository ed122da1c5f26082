import { z } from 'zod';
import { Fault } from '../../../foundation/fault.ts';
import { type Scan, type Scans, severities } from '../../../scans/index.ts';
import { ok } from '../../route/declaration.ts';
import { apiRoute } from '../api-route.ts';
import { isoTime } from './container-response.ts';

export interface ScanRoutesDeps {
  /** Undefined on a server without a scanner. */
  readonly scans: Scans | undefined;
}

const tag = 'Scans';
const params = { scanId: z.string().describe('`scanId` of the response to the request') };
const plainText = 'text/plain; charset=utf-8';
const sarifType = 'application/sarif+json';
const spdxType = 'application/spdx+json';

const scanDetailsSchema = z
  .object({
    id: z.string(),
    status: z.enum(['PENDING', 'SUCCEEDED', 'FAILED']),
    containerImage: z.string().describe('What was scanned, by its digest once that is known'),
    startTime: z.string().meta({ format: 'date-time' }),
    duration: z.number().optional().describe('Seconds; present when the scan is finished'),
    scanner: z.string().optional().describe('Name and version of the scanner'),
    reason: z.string().optional().describe('Why the scan failed'),
    counts: z
      .partialRecord(z.enum(severities), z.number().int())
      .optional()
      .describe('Number of vulnerabilities by severity'),
    vulnerabilities: z
      .array(
        z.object({
          id: z.string(),
          severity: z.enum(severities),
          title: z.string(),
          pkgName: z.string(),
          installedVersion: z.string(),
          fixedVersion: z.string().optional(),
          primaryUrl: z.string().optional(),
          layer: z.string().optional().describe('Digest of the layer with the package'),
        }),
      )
      .optional()
      .describe('The most severe ones, at most 100'),
    scanned: z
      .enum(['layers', 'bill'])
      .optional()
      .describe(
        '`layers`: the scanner read all files. `bill`: packages by the bill of materials of the build, and the files of all other layers',
      ),
    packages: z
      .number()
      .int()
      .optional()
      .describe('Number of packages in the image; absent where the scanner does not list them'),
  })
  .meta({ title: 'ScanDetails' });

export const scanRoute = apiRoute({
  id: 'getScan',
  method: 'get',
  path: '/v1alpha1/scans/{scanId}',
  tag,
  summary: 'Result of a scan of an image',
  access: 'anybody',
  params,
  responses: ok(scanDetailsSchema, 'The scan'),
  faults: ['not-found', 'not-provided'],
  run: async (
    { params: { scanId } },
    { scans }: { readonly scans: Pick<Scans, 'get'> | undefined },
  ) => describeScan(await requireScans(scans).get(scanId)),
});

/** Routes of scans: whoever knows an id may read its scan, as with builds. Source: reference service, scans. */
export const scanRoutes = [
  scanRoute,
  apiRoute({
    id: 'getScanLogs',
    method: 'get',
    path: '/v1alpha1/scans/{scanId}/logs',
    tag,
    summary: 'Log of a scan of an image',
    access: 'anybody',
    params,
    responses: { 200: { about: 'The log', types: [plainText] } },
    faults: ['not-found', 'not-provided'],
    run: async ({ params: { scanId } }, { scans }: ScanRoutesDeps) =>
      (await requireScans(scans).get(scanId)).log,
  }),
  apiRoute({
    id: 'getScanSarif',
    method: 'get',
    path: '/v1alpha1/scans/{scanId}/sarif',
    tag,
    summary:
      'Vulnerabilities in an image, as SARIF 2.1.0 for code scanning. At most 5000, the most severe ones',
    access: 'anybody',
    params,
    responses: { 200: { about: 'The vulnerabilities', types: [sarifType] } },
    faults: ['not-found', 'not-provided', 'unavailable'],
    async run({ ctx, params: { scanId } }, { scans }: ScanRoutesDeps) {
      ctx.type = sarifType;
      return requireScans(scans).sarif(scanId);
    },
  }),
  apiRoute({
    id: 'getScanBill',
    method: 'get',
    path: '/v1alpha1/scans/{scanId}/spdx',
    tag,
    summary: 'Bill of materials of a scanned image, as SPDX 2.3: all packages that the scanner saw',
    access: 'anybody',
    params,
    responses: { 200: { about: 'The bill of materials', types: [spdxType] } },
    faults: ['not-found', 'not-provided', 'unavailable'],
    async run({ ctx, params: { scanId } }, { scans }: ScanRoutesDeps) {
      ctx.type = spdxType;
      return requireScans(scans).spdx(scanId);
    },
  }),
];

/** Returns the scans of a server. Throws a `Fault` for one without a scanner. */
export function requireScans<S>(scans: S | undefined): S {
  if (scans) return scans;
  throw new Fault(
    'not-provided',
    'This server does not scan images: its operator can set scans.program or scans.adapter',
    {
      phase: 'request',
    },
  );
}

function describeScan({ id, image, createdAt, startedAt, finishedAt, ...scan }: Scan) {
  const { succeeded, reason, report } = scan;
  const start = startedAt ?? createdAt;
  return {
    id,
    status: succeeded === null ? 'PENDING' : succeeded ? 'SUCCEEDED' : 'FAILED',
    containerImage: image,
    startTime: isoTime(start),
    ...(finishedAt === null ? {} : { duration: Math.max(0, finishedAt - start) / 1000 }),
    ...(reason === null ? {} : { reason }),
    ...report,
  };
}
