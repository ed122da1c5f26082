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
import { Spec1dot6 } from '@cyclonedx/cyclonedx-library/Spec';
import type { Bill, BilledPackage } from '../bill.ts';
import { graphOf } from '../bill-graph.ts';
import { documentUuid } from './derived-id.ts';
import { licenseOf } from './license-of.ts';
import { purlOf } from './package-purl.ts';

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

function componentOf(it: BilledPackage): Component {
  const purl = purlOf(it);
  const component = new Component(ComponentType.Library, it.name, {
    version: it.version,
    purl,
    bomRef: purl,
    ...(it.summary === undefined ? {} : { description: it.summary }),
  });
  if (it.md5 !== undefined) component.hashes.set(HashAlgorithm.MD5, it.md5);
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
