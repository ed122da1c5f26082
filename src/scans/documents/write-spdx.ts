import { createHash } from 'node:crypto';
import parse from 'spdx-expression-parse';
import type { FoundPackage } from '../found-in-image.ts';
import { writeInTurns } from './write-in-turns.ts';

/** A scan, as its documents name it. */
export interface DocumentedScan {
  /** `registry/repository@digest`. */
  readonly image: string;
  /** Address of the document, which no other document has. */
  readonly address: string;
  readonly finishedAt: number;
  /** Name and version of the scanner. */
  readonly scanner: string;
}

const imageId = 'SPDXRef-Image';

/** Returns the bill of materials of an image in the form of SPDX 2.3. Source: SPDX specification 2.3. */
export async function writeSpdx(
  { image, address, finishedAt, scanner }: DocumentedScan,
  packages: readonly FoundPackage[],
): Promise<string> {
  const texts = new Map<string, string>();
  const about = {
    spdxVersion: 'SPDX-2.3',
    dataLicense: 'CC0-1.0',
    SPDXID: 'SPDXRef-DOCUMENT',
    name: image,
    documentNamespace: address,
    creationInfo: {
      created: `${new Date(finishedAt).toISOString().slice(0, 19)}Z`,
      creators: ['Tool: sluice', `Tool: ${lineOf(scanner)}`],
    },
  };
  return writeInTurns(about, [
    { name: 'packages', items: packagesOf(image, packages, texts) },
    { name: 'relationships', items: relationsOf(packages) },
    { name: 'hasExtractedLicensingInfos', items: licensesIn(texts) },
  ]);
}

function* packagesOf(
  image: string,
  packages: readonly FoundPackage[],
  texts: Map<string, string>,
): Iterable<object> {
  yield {
    SPDXID: imageId,
    name: image,
    versionInfo: image.slice(image.indexOf('@') + 1),
    downloadLocation: 'NOASSERTION',
    filesAnalyzed: false,
    primaryPackagePurpose: 'CONTAINER',
  };
  for (const [at, one] of packages.entries()) {
    const { name, version, purl, licenses = [], isSystem } = one;
    yield {
      SPDXID: idOf(one, at),
      name: lineOf(name) || 'NOASSERTION',
      ...(version === '' ? {} : { versionInfo: lineOf(version) }),
      downloadLocation: 'NOASSERTION',
      filesAnalyzed: false,
      licenseConcluded: 'NOASSERTION',
      licenseDeclared: licenseOf(licenses, texts),
      // Scanners that read the document look for vulnerabilities of this system: Grype finds it by its purpose.
      ...(isSystem ? { primaryPackagePurpose: 'OPERATING-SYSTEM' } : {}),
      ...(purl !== undefined && /^pkg:[\x21-\x7e]+$/.test(purl)
        ? { externalRefs: [{ ...purlReference, referenceLocator: purl }] }
        : {}),
    };
  }
}

const purlReference = { referenceCategory: 'PACKAGE-MANAGER', referenceType: 'purl' };

function* relationsOf(packages: readonly FoundPackage[]): Iterable<object> {
  yield relationOf('SPDXRef-DOCUMENT', 'DESCRIBES', imageId);
  for (const [at, one] of packages.entries()) yield relationOf(imageId, 'CONTAINS', idOf(one, at));
}

function relationOf(spdxElementId: string, relationshipType: string, relatedSpdxElement: string) {
  return { spdxElementId, relationshipType, relatedSpdxElement };
}

function* licensesIn(texts: ReadonlyMap<string, string>): Iterable<object> {
  for (const [licenseId, text] of texts) yield { licenseId, name: text, extractedText: text };
}

/** Returns the id of the package at an index. Trivy finds the system by the beginning of its id. */
function idOf({ isSystem }: FoundPackage, at: number): string {
  return `SPDXRef-${isSystem ? 'OperatingSystem' : 'Package'}-${at + 1}`;
}

/** Returns an expression of the licenses. Those that are not in the list of SPDX get a name, and their text is noted under it. */
function licenseOf(licenses: readonly string[], texts: Map<string, string>): string {
  const parts = licenses.map(license => {
    if (isExpression(license)) return license.includes(' ') ? `(${license})` : license;
    const hash = createHash('sha256').update(license).digest('hex').slice(0, 12);
    texts.set(`LicenseRef-${hash}`, lineOf(license) || 'NOASSERTION');
    return `LicenseRef-${hash}`;
  });
  return parts.length === 0 ? 'NOASSERTION' : [...new Set(parts)].join(' AND ');
}

function isExpression(license: string): boolean {
  // References to texts of another document mean nothing in this one.
  if (license.includes('Ref-')) return false;
  try {
    parse(license);
    return true;
  } catch {
    return false;
  }
}

/** Returns a text from an image as one line. */
function lineOf(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, ' ').trim();
}
