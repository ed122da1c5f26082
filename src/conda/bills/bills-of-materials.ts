import { createHash } from 'node:crypto';
import {
  ComponentType,
  ExternalReferenceType,
  HashAlgorithm,
} from '@cyclonedx/cyclonedx-library/Enums';
import {
  Bom,
  Component,
  ExternalReference,
  LicenseExpression,
  Metadata,
  NamedLicense,
  SpdxLicense,
  Tools,
} from '@cyclonedx/cyclonedx-library/Models';
import { JSON as CdxJson, JsonSerializer } from '@cyclonedx/cyclonedx-library/Serialize';
import { fixupSpdxId } from '@cyclonedx/cyclonedx-library/SPDX';
import { Spec1dot6 } from '@cyclonedx/cyclonedx-library/Spec';
import { PackageURL } from 'packageurl-js';
import parse from 'spdx-expression-parse';
import { nameOfBase } from '../channels/channel-address.ts';
import { type Bill, type GraphNode, graphOf } from './bill.ts';
import type { PlatformParts } from './platform-parts.ts';

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
      spdxRelation('SPDXRef-DOCUMENT', 'DESCRIBES', imageId),
      ...[...graph].flatMap(relationsOf),
    ],
    ...(texts.size === 0 ? {} : { hasExtractedLicensingInfos: extractedLicenses(texts) }),
  };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}

function spdxRelation(spdxElementId: string, relationshipType: string, relatedSpdxElement: string) {
  return { spdxElementId, relationshipType, relatedSpdxElement };
}

function relationsOf([url, { dependsOn }]: [string, GraphNode]) {
  return [
    spdxRelation(imageId, 'CONTAINS', idOf(url)),
    ...dependsOn.map(other => spdxRelation(idOf(url), 'DEPENDS_ON', idOf(other))),
  ];
}

function idOf(url: string): string {
  const file = url.slice(url.lastIndexOf('/') + 1).replace(/[^A-Za-z0-9.-]/g, '-');
  return `SPDXRef-${file}-${shortHash(url)}`;
}

function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 12);
}

function packageOf(it: GraphNode['package'], texts: Map<string, string>) {
  const sums = { SHA256: it.sha256, MD5: md5Of(it) };
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
    licenseDeclared: it.license === undefined ? 'NOASSERTION' : declaredLicense(it.license, texts),
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
function declaredLicense(text: string, texts: Map<string, string>): string {
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

function extractedLicenses(texts: ReadonlyMap<string, string>) {
  return [...texts].map(([licenseId, extractedText]) => ({
    licenseId,
    extractedText,
    name: extractedText,
  }));
}

/**
 * Returns the bill of materials in the form of CycloneDX 1.6: the Conda packages of the image, without those of its base image.
 * It has no date. Source: CycloneDX specification 1.6 (ECMA-424).
 */
export function writeCyclonedx(bill: Bill): string {
  const graph = graphOf(bill);
  const image = new Component(ComponentType.Container, bill.image, { bomRef: 'image' });
  const components = new Map([...graph].map(([url, node]) => [url, componentOf(node.package)]));
  for (const [url, { dependsOn }] of graph) {
    const component = components.get(url) as Component;
    image.dependencies.add(component.bomRef);
    for (const other of dependsOn) {
      component.dependencies.add((components.get(other) as Component).bomRef);
    }
  }
  const tools = new Tools();
  tools.components.add(new Component(ComponentType.Application, 'sluice', { bomRef: 'sluice' }));
  const bom = new Bom({
    metadata: new Metadata({ component: image, tools }),
    serialNumber: `urn:uuid:${documentUuid('cyclonedx', bill)}`,
  });
  for (const component of components.values()) bom.components.add(component);
  const serializer = new JsonSerializer(new CdxJson.Normalize.Factory(Spec1dot6));
  return `${serializer.serialize(bom, { sortLists: true, space: 2 })}\n`;
}

/** Returns the packages of a bill and their layers, as a scan reads them. */
export function writeParts({ platforms }: Bill): string {
  const parts = platforms.map(({ packages, wheels = [], contents = [] }): PlatformParts => {
    const components = [...packages, ...wheels].map(it => {
      const { name, version } = it;
      return { name, version, purl: purlOf(it) };
    });
    return { components, contents };
  });
  return JSON.stringify(parts);
}

function componentOf(it: GraphNode['package']): Component {
  const purl = purlOf(it);
  const component = new Component(ComponentType.Library, it.name, {
    version: it.version,
    purl,
    bomRef: purl,
    ...(it.summary === undefined ? {} : { description: it.summary }),
  });
  const md5 = md5Of(it);
  if (md5 !== undefined) component.hashes.set(HashAlgorithm.MD5, md5);
  if (it.sha256 !== undefined) component.hashes.set(HashAlgorithm['SHA-256'], it.sha256);
  if (it.license !== undefined) component.licenses.add(licenseIn(it.license));
  const { Distribution, Website } = ExternalReferenceType;
  component.externalReferences.add(new ExternalReference(it.url, Distribution));
  if (it.home !== undefined && /^https?:\/\//.test(it.home) && URL.canParse(it.home)) {
    component.externalReferences.add(new ExternalReference(new URL(it.home).href, Website));
  }
  return component;
}

function licenseIn(text: string) {
  const license = licenseOf(text);
  switch (license.kind) {
    case 'id':
      return new SpdxLicense(license.id);
    case 'expression':
      return new LicenseExpression(license.expression);
    case 'name':
      return new NamedLicense(license.name);
  }
}

/**
 * Returns the unique identifier of a document: a version 8 UUID derived from the image and its packages, and not from the
 * request for them.
 * Source: RFC 9562, section 5.8.
 */
function documentUuid(form: string, { image, platforms }: Bill): string {
  const packages = platforms.map(({ subdir, packages, wheels }) => [
    subdir,
    packages.map(({ url, md5, sha256, depends, license, summary, home }) => [
      ...[url, md5, sha256, depends],
      ...[license, summary, home],
    ]),
    // A solution without them keeps its identifier.
    ...(wheels === undefined ? [] : [wheels]),
  ]);
  const stated = JSON.stringify([form, image, packages]);
  const hash = createHash('sha256').update(stated).digest();
  hash.writeUInt8((hash.readUInt8(6) & 0x0f) | 0x80, 6);
  hash.writeUInt8((hash.readUInt8(8) & 0x3f) | 0x80, 8);
  const hex = hash.toString('hex');
  const at = [0, 8, 12, 16, 20, 32];
  return at
    .slice(1)
    .map((end, part) => hex.slice(at[part], end))
    .join('-');
}

/** A license that a package states. */
type StatedLicense =
  | { readonly kind: 'id'; readonly id: string }
  | { readonly kind: 'expression'; readonly expression: string }
  /** A text that is not an SPDX expression. */
  | { readonly kind: 'name'; readonly name: string };

/** Reads the license of a package. Source: SPDX specification 2.3, annex D. */
function licenseOf(text: string): StatedLicense {
  const id = fixupSpdxId(text);
  if (id !== undefined) return { kind: 'id', id };
  return isExpression(text)
    ? { kind: 'expression', expression: text }
    : { kind: 'name', name: text };
}

/** Returns the references to licenses in an expression that are not on SPDX's list: `LicenseRef-...`. */
function referencesIn(expression: string): readonly string[] {
  return [...new Set(expression.match(/\bLicenseRef-[A-Za-z0-9.-]+/g))];
}

function isExpression(text: string): boolean {
  // Nothing describes the other document that such a reference names.
  if (text.includes('DocumentRef-')) return false;
  try {
    parse(text);
    return true;
  } catch {
    return false;
  }
}

function md5Of(it: GraphNode['package']): string | undefined {
  return 'md5' in it ? it.md5 : undefined;
}

/** Returns the package URL of a package. Source: purl specification, types `conda` and `pypi`. */
function purlOf(it: GraphNode['package']): string {
  if (!('build' in it)) {
    const name = it.name.replaceAll('_', '-').toLowerCase();
    const qualifiers = it.fileName === undefined ? { vcs_url: it.url } : { file_name: it.fileName };
    return new PackageURL('pypi', undefined, name, it.version, qualifiers, undefined).toString();
  }
  const { name, version, build, url, subdir, fileName } = it;
  const base = url.slice(0, url.lastIndexOf(`/${subdir}/`));
  const type = fileName.endsWith('.conda') ? 'conda' : 'tar.bz2';
  const qualifiers = { build, channel: nameOfBase(base), subdir, type };
  return new PackageURL('conda', undefined, name, version, qualifiers, undefined).toString();
}
