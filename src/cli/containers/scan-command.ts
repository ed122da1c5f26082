import { setTimeout as sleep } from 'node:timers/promises';
import { terminalLine, terminalLines } from '../../foundation/text.ts';
import { supportedPlatforms } from '../../oci/naming.ts';
import {
  type Command,
  CommandError,
  jsonOption,
  type Option,
  only,
  print,
  serverOption,
  serverVariables,
  table,
  text,
  tokenVariable,
  type Values,
} from '../command/command.ts';
import { withWaitingLine } from '../progress/waiting-line.ts';
import { claimOf, claimOptions, get, stream } from '../server-client.ts';
import { requestContainer } from './request-container.ts';

const severities = ['CRITICAL', 'HIGH', 'MEDIUM', 'LOW', 'UNKNOWN'] as const;
type Severity = (typeof severities)[number];

interface ScanResponse {
  readonly id: string;
  readonly status: 'PENDING' | 'SUCCEEDED' | 'FAILED';
  readonly containerImage: string;
  readonly reason?: string;
  readonly scanner?: string;
  readonly counts?: Readonly<Partial<Record<Severity, number>>>;
  readonly vulnerabilities?: readonly {
    readonly id: string;
    readonly severity: Severity;
    readonly pkgName: string;
    readonly installedVersion: string;
    readonly fixedVersion?: string;
  }[];
}

const options: Readonly<Record<string, Option>> = {
  platform: {
    type: 'string',
    value: 'OS/ARCH',
    completes: supportedPlatforms,
    description: `Only this platform: ${supportedPlatforms.join(' or ')}. Default: all platforms`,
  },
  ...claimOptions,
  server: serverOption,
};
const variables = { ...serverVariables, ...tokenVariable };
const pauseMs = 1000;
const head = ['severity', 'vulnerability', 'package', 'installed', 'fixed'];

/** `sluice scan`: has the server scan an image, and shows what was found. */
export const scanCommand: Command = {
  summary: 'Have the server scan an image for known vulnerabilities, and show them',
  usage: ['IMAGE'],
  options: {
    levels: {
      type: 'string',
      value: 'LEVEL,...',
      completes: severities,
      description:
        'Accepted severities: CRITICAL, HIGH, MEDIUM, LOW, UNKNOWN. Any other one gives exit code 1. Default: none is accepted',
    },
    ...options,
    json: jsonOption,
  },
  variables,
  exits: { 1: 'A severity outside of --levels was found, or the scan failed' },

  async run(values, args) {
    const accepted = levelsOf(values);
    const scan = await scanned(values, only(args, 'IMAGE'));
    const { counts = {}, vulnerabilities = [] } = scan;
    const found = severities.filter(severity => counts[severity]);
    const all = found.reduce((sum, severity) => sum + (counts[severity] ?? 0), 0);
    const left = all - vulnerabilities.length;
    print(values, scan, [
      ...(vulnerabilities.length === 0 ? [] : table(head, vulnerabilities.map(cellsOf))),
      ...(left > 0 ? [`${left} less severe ones are not listed.`] : []),
      found.length === 0
        ? `${terminalLine(scan.scanner ?? 'The scanner')} knows of no vulnerability in ${terminalLine(scan.containerImage)}`
        : found.map(severity => `${counts[severity]} ${severity}`).join(', '),
    ]);
    return found.some(severity => !accepted.includes(severity)) ? 1 : 0;
  },
};

/** `sluice sbom`: prints the bill of materials of an image. */
export const sbomCommand: Command = {
  summary:
    'Print the bill of materials of an image, as SPDX 2.3, made by the scanner of the server',
  usage: ['IMAGE'],
  options,
  variables,

  async run(values, args) {
    const { id } = await scanned(values, only(args, 'IMAGE'));
    for await (const part of await stream(
      values,
      `/v1alpha1/scans/${encodeURIComponent(id)}/spdx`,
    )) {
      process.stdout.write(part);
    }
    return 0;
  },
};

/** Returns the finished scan of an image. Throws a {@link CommandError} when it fails, and without a scanner. */
async function scanned(values: Values, image: string): Promise<ScanResponse> {
  const response = (await requestContainer(values, {
    containerImage: image,
    containerPlatform: text(values, 'platform'),
    scanMode: 'async',
    ...(await claimOf(values)),
    timestamp: new Date().toISOString(),
  })) as { readonly scanId?: string; readonly warnings?: readonly string[] };
  const { scanId, warnings = [] } = response;
  if (scanId === undefined) {
    throw new CommandError(
      warnings.map(terminalLines).join('; ') || 'The server did not scan the image',
    );
  }
  const path = `/v1alpha1/scans/${encodeURIComponent(scanId)}`;
  const scan = await withWaitingLine(process.stderr, 'Scanning the image', async () => {
    for (;;) {
      const state = (await get(values, path)) as ScanResponse;
      if (state.status !== 'PENDING') return state;
      await sleep(pauseMs);
    }
  });
  if (scan.status === 'SUCCEEDED') return scan;
  throw new CommandError(`The scan failed: ${terminalLines(scan.reason ?? 'without a reason')}`);
}

function levelsOf(values: Values): readonly string[] {
  const names = (text(values, 'levels') ?? '').toUpperCase().split(',');
  const given = names.map(name => name.trim()).filter(name => name !== '');
  const wrong = given.find(name => !severities.some(severity => severity === name));
  if (wrong === undefined) return given;
  throw new CommandError(
    `--levels: expected ${severities.join(', ')}, separated by commas, not '${wrong}'`,
    2,
  );
}

function cellsOf(found: NonNullable<ScanResponse['vulnerabilities']>[number]): string[] {
  const { severity, id, pkgName, installedVersion, fixedVersion = '-' } = found;
  return [severity, id, pkgName, installedVersion, fixedVersion];
}
