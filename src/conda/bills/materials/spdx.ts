import { createHash } from 'node:crypto';
import type { Bill, BilledPackage } from '../bill.ts';
import { type GraphNode, graphOf } from '../bill-graph.ts';
import { documentUuid } from './derived-id.ts';
import { licenseOf, referencesIn } from './license-of.ts';
import { purlOf } from './package-purl.ts';

/** The date of everything that a build makes: the form requires one, and the same bill has the same bytes at any time. */
const created = '2025-01-01T00:00:00Z';
const imageId = 'SPDXRef-Image';

/**
 * Returns the bill of materials in the form of SPDX 2.3: the Conda packages of the image, without those of its base image. Source:
 * SPDX specification 2.3.
 */
export function writeSpdx(bill: Bill): string {
  const graph = graphOf(bill);
  const texts = new Map<string, string>();
  const packages = [...graph.values()].map(node => packageOf(node.package, texts));
  const image = {
    SPDXID: imageId,
    name: bill.image,
    downloadLocation: 'NOASSERTION',
    filesAnalyzed: false,
    primaryPackagePurpose: 'CONTAINER',
  };
  const document = {
    spdxVersion: 'SPDX-2.3',
    dataLicense: 'CC0-1.0',
    SPDXID: 'SPDXRef-DOCUMENT',
    name: bill.image,
    documentNamespace: `urn:uuid:${documentUuid('spdx', bill)}`,
    creationInfo: { created, creators: ['Tool: sluice'] },
    packages: [image, ...packages],
    relationships: [
      relation('SPDXRef-DOCUMENT', 'DESCRIBES', imageId),
      ...[...graph].flatMap(relationsOf),
    ],
    ...(texts.size === 0 ? {} : { hasExtractedLicensingInfos: extracted(texts) }),
  };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}

function relation(spdxElementId: string, relationshipType: string, relatedSpdxElement: string) {
  return { spdxElementId, relationshipType, relatedSpdxElement };
}

function relationsOf([url, { dependsOn }]: [string, GraphNode]) {
  return [
    relation(imageId, 'CONTAINS', idOf(url)),
    ...dependsOn.map(other => relation(idOf(url), 'DEPENDS_ON', idOf(other))),
  ];
}

function idOf(url: string): string {
  const file = url.slice(url.lastIndexOf('/') + 1).replace(/[^A-Za-z0-9.-]/g, '-');
  return `SPDXRef-${file}-${shortHash(url)}`;
}

function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 12);
}

function packageOf(it: BilledPackage, texts: Map<string, string>) {
  const sums = { SHA256: it.sha256, MD5: it.md5 };
  return {
    SPDXID: idOf(it.url),
    name: it.name,
    versionInfo: it.version,
    packageFileName: it.fileName,
    downloadLocation: it.url,
    filesAnalyzed: false,
    checksums: Object.entries(sums).flatMap(([algorithm, checksumValue]) =>
      checksumValue === undefined ? [] : [{ algorithm, checksumValue }],
    ),
    licenseConcluded: 'NOASSERTION',
    licenseDeclared: it.license === undefined ? 'NOASSERTION' : declared(it.license, texts),
    copyrightText: 'NOASSERTION',
    ...(it.summary === undefined ? {} : { summary: it.summary }),
    externalRefs: [
      {
        referenceCategory: 'PACKAGE-MANAGER',
        referenceType: 'purl',
        referenceLocator: purlOf(it),
      },
    ],
  };
}

/** Returns the license as an expression, and adds the texts of licenses that are not on SPDX's list. */
function declared(text: string, texts: Map<string, string>): string {
  const license = licenseOf(text);
  if (license.kind === 'id') return license.id;
  if (license.kind === 'expression') {
    for (const reference of referencesIn(license.expression)) texts.set(reference, reference);
    return license.expression;
  }
  const reference = `LicenseRef-${shortHash(license.name)}`;
  texts.set(reference, license.name);
  return reference;
}

function extracted(texts: ReadonlyMap<string, string>) {
  return [...texts].map(([licenseId, extractedText]) => ({
    licenseId,
    extractedText,
    name: extractedText,
  }));
}
