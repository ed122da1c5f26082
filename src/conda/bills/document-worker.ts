import { createHash } from 'node:crypto';
import { Fault } from '../../foundation/fault.ts';
import { serveTask } from '../threads/one-task.ts';
import {
  type Bill,
  type BilledPackage,
  type BilledWheel,
  linkOrder,
  partsOfSpec,
  unpackBill,
} from './bill.ts';
import { writeCyclonedx, writeParts, writeSpdx } from './bills-of-materials.ts';
import type { DocumentName } from './document-form.ts';
import { writeExplicitLock, writePixiLock, yamlLine, yamlText } from './write-locks.ts';

/** The documents to write, about a bill as it is kept. */
export interface DocumentOrder {
  readonly kept: Uint8Array;
  readonly names: readonly WrittenName[];
}

/** `parts`: the `PlatformParts` of a bill as JSON, which is not a document for others. */
export type WrittenName = DocumentName | 'parts';

const writers: Readonly<Record<WrittenName, (bill: Bill) => string>> = {
  explicit: writeExplicitLock,
  pixi: writePixiLock,
  'conda-lock': writeCondaLock,
  spdx: writeSpdx,
  cyclonedx: writeCyclonedx,
  parts: writeParts,
};

// Returns the documents in the order of their names.
serveTask(({ kept, names }: DocumentOrder): readonly string[] => {
  const bill = unpackBill(kept);
  return names.map(name => writers[name](bill));
});

/**
 * Returns the lock file of conda-lock, version 1. Its form requires the MD5 of each package: throws a `Fault` (404) where a channel
 * does not state one. Source: conda-lock, `lockfile/v1/models.py`.
 */
function writeCondaLock(bill: Bill): string {
  return [
    'version: 1',
    'metadata:',
    '  content_hash:',
    ...bill.platforms.map(({ subdir }) => `    ${subdir}: ${yamlText(contentHash(bill, subdir))}`),
    `  channels:${bill.channels.length === 0 ? ' []' : ''}`,
    ...bill.channels.flatMap(url => [`  - url: ${yamlText(url)}`, '    used_env_vars: []']),
    '  platforms:',
    ...bill.platforms.map(({ subdir }) => `  - ${subdir}`),
    '  sources: []',
    'package:',
    ...bill.platforms.flatMap(({ subdir, packages, wheels = [] }) => [
      ...linkOrder(packages).flatMap(it => entryOf(it, subdir)),
      ...wheels.flatMap(it => wheelEntry(it, subdir)),
    ]),
    '',
  ].join('\n');
}

/**
 * Returns the digest of what was wanted, for one platform. conda-lock computes its own from a source file, and compares the
 * two only when it is asked to lock that file again.
 */
function contentHash({ channels, requested }: Bill, subdir: string): string {
  const wanted = JSON.stringify({ channels, specs: requested, platform: subdir });
  return createHash('sha256').update(wanted).digest('hex');
}

function wheelEntry(it: BilledWheel, subdir: string): readonly string[] {
  return [
    `- name: ${yamlText(it.name)}`,
    ...yamlLine('  ', 'version', it.version),
    '  manager: pip',
    `  platform: ${subdir}`,
    '  dependencies: {}',
    ...yamlLine('  ', 'url', it.url),
    '  hash:',
    // The form requires a digest. conda-lock writes the commit of a repository there.
    ...yamlLine('    ', 'sha256', it.sha256 ?? commitIn(it.url)),
    '  category: main',
    '  optional: false',
  ];
}

function commitIn(address: string): string | undefined {
  return /@([0-9a-f]{40})(?:#|$)/.exec(address)?.[1];
}

function entryOf(it: BilledPackage, subdir: string): readonly string[] {
  if (it.md5 === undefined) {
    throw new Fault(
      'not-found',
      `A conda-lock file needs the MD5 of each package, and the channel of ${it.fileName} does not state it: ask for the explicit lock file or pixi.lock`,
      { phase: 'request' },
    );
  }
  const required = new Map<string, string[]>();
  for (const spec of it.depends) {
    const { name, constraint } = partsOfSpec(spec);
    const constraints = required.get(name) ?? [];
    required.set(name, constraints);
    if (constraint !== '') constraints.push(constraint);
  }
  return [
    `- name: ${yamlText(it.name)}`,
    ...yamlLine('  ', 'version', it.version),
    '  manager: conda',
    `  platform: ${subdir}`,
    `  dependencies:${required.size === 0 ? ' {}' : ''}`,
    ...[...required].map(
      ([name, constraints]) => `    ${yamlText(name)}: ${yamlText(constraints.join(','))}`,
    ),
    ...yamlLine('  ', 'url', it.url),
    '  hash:',
    ...yamlLine('    ', 'md5', it.md5),
    ...yamlLine('    ', 'sha256', it.sha256),
    '  category: main',
    '  optional: false',
  ];
}
