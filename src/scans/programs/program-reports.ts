import type { FoundPackage } from '../found-in-image.ts';
import { unusable } from '../unusable-report.ts';
import type { ProgramKind } from './program-kinds.ts';

/** What a program reports, in the form of the adapters. */
export interface ProgramReport {
  /** Vulnerabilities as in a report of Harbor's API. */
  readonly vulnerabilities: readonly object[];
  readonly packages: readonly FoundPackage[];
}

/** Documents of a program, read as JSON. */
export interface ProgramDocuments {
  readonly report: unknown;
  /** Undefined where the packages are in the report. */
  readonly bill: unknown;
}

type Json = Readonly<Record<string, unknown>>;

// More than any genuine image has.
const mostFound = 20_000;
const mostPackages = 50_000;
const mostLicenses = 10;

/** Returns what a program reports. Throws a `Fault` for documents of another form, and for more than an image has. */
export function readProgramReport(kind: ProgramKind, documents: ProgramDocuments): ProgramReport {
  const read = kind === 'trivy' ? trivyReport(documents) : grypeReport(documents);
  if (read.vulnerabilities.length > mostFound) {
    throw unusable(`a report with more than ${mostFound} vulnerabilities`);
  }
  if (read.packages.length > mostPackages) {
    throw unusable(`a report with more than ${mostPackages} packages`);
  }
  return read;
}

/** Source: Trivy, `pkg/types/report.go`. */
function trivyReport({ report }: ProgramDocuments): ProgramReport {
  if (!['container_image', 'cyclonedx'].includes(textOf(objectOf(report), 'ArtifactType') ?? '')) {
    throw unusable('something that is not a report about an image');
  }
  const results = listOf(report, 'Results');
  const system = objectOf(objectOf(objectOf(report).Metadata).OS);
  const family = textOf(system, 'Family');
  return {
    vulnerabilities: results.flatMap(result =>
      listOf(result, 'Vulnerabilities').map(found => {
        const layer = objectOf(objectOf(found).Layer);
        const digest = textOf(layer, 'Digest') ?? textOf(layer, 'DiffID');
        return {
          id: textOf(found, 'VulnerabilityID'),
          package: textOf(found, 'PkgName'),
          version: textOf(found, 'InstalledVersion'),
          fix_version: textOf(found, 'FixedVersion'),
          severity: textOf(found, 'Severity'),
          description: textOf(found, 'Title') ?? textOf(found, 'Description'),
          links: linksOf(textOf(found, 'PrimaryURL')),
          ...(digest === undefined ? {} : { layer: { digest } }),
        };
      }),
    ),
    packages: [
      ...systemOf(family, textOf(system, 'Name')),
      ...results.flatMap(result =>
        listOf(result, 'Packages').map(one => {
          const { Version, Release, Epoch } = objectOf(one);
          const release = typeof Release === 'string' && Release !== '' ? `-${Release}` : '';
          const epoch = typeof Epoch === 'number' && Epoch > 0 ? `${Epoch}:` : '';
          return packageOf({
            name: textOf(one, 'Name'),
            version: `${epoch}${String(Version ?? '')}${release}`,
            purl: ofSystem(textOf(objectOf(objectOf(one).Identifier), 'PURL'), family),
            licenses: listOf(one, 'Licenses').map(String),
          });
        }),
      ),
    ],
  };
}

/** Sources: Grype, `grype/presenter/models`; CycloneDX 1.6. */
function grypeReport({ report, bill }: ProgramDocuments): ProgramReport {
  if (!Array.isArray(objectOf(report).matches)) {
    throw unusable('something that is not a report about an image');
  }
  const parts = listOf(bill, 'components');
  const system = parts.find(part => textOf(part, 'type') === 'operating-system');
  return {
    vulnerabilities: listOf(report, 'matches').map(match => {
      const { vulnerability, artifact } = objectOf(match);
      const [location] = listOf(artifact, 'locations');
      const digest = textOf(objectOf(location), 'layerID');
      const fixes = listOf(objectOf(vulnerability).fix, 'versions');
      return {
        id: textOf(vulnerability, 'id'),
        package: textOf(artifact, 'name'),
        version: textOf(artifact, 'version'),
        fix_version: fixes.map(String).join(', '),
        severity: textOf(vulnerability, 'severity'),
        description: textOf(vulnerability, 'description'),
        links: linksOf(textOf(vulnerability, 'dataSource')),
        ...(digest === undefined ? {} : { layer: { digest } }),
      };
    }),
    packages: [
      ...systemOf(textOf(system, 'name'), textOf(system, 'version')),
      ...parts
        .filter(part => !['file', 'operating-system'].includes(textOf(part, 'type') ?? ''))
        .map(part =>
          packageOf({
            name: textOf(part, 'name'),
            version: textOf(part, 'version') ?? '',
            purl: textOf(part, 'purl'),
            licenses: listOf(part, 'licenses').flatMap(one => {
              const license = objectOf(objectOf(one).license);
              const name =
                textOf(one, 'expression') ?? textOf(license, 'id') ?? textOf(license, 'name');
              return name === undefined ? [] : [name];
            }),
          }),
        ),
    ],
  };
}

/** Returns a package URL with the name of the system before its version, as others than Trivy expect it. */
function ofSystem(purl: string | undefined, family: string | undefined): string | undefined {
  if (family === undefined) return purl;
  return purl?.replace(/[?&]distro=(?=\d)/, found => `${found}${family}-`);
}

function systemOf(name: string | undefined, version: string | undefined): FoundPackage[] {
  if (name === undefined) return [];
  const system = packageOf({ name, version: version ?? '', purl: undefined, licenses: [] });
  return [{ ...system, isSystem: true }];
}

function packageOf(part: {
  readonly name: string | undefined;
  readonly version: string;
  readonly purl: string | undefined;
  readonly licenses: readonly string[];
}): FoundPackage {
  const licenses = part.licenses.slice(0, mostLicenses).map(one => one.slice(0, 100));
  const { purl } = part;
  return {
    name: (part.name ?? '').slice(0, 200),
    version: part.version.slice(0, 200),
    // A part of a package URL names something else.
    ...(purl !== undefined && purl.length <= 500 ? { purl } : {}),
    ...(licenses.length === 0 ? {} : { licenses }),
  };
}

function linksOf(link: string | undefined): readonly string[] {
  return link ? [link] : [];
}

function objectOf(value: unknown): Json {
  return typeof value === 'object' && value !== null ? (value as Json) : {};
}

function listOf(value: unknown, member: string): readonly unknown[] {
  const list = objectOf(value)[member];
  return Array.isArray(list) ? list : [];
}

/** Returns a text of an object, cut like all texts of scanners. */
function textOf(value: unknown, member: string): string | undefined {
  const text = objectOf(value)[member];
  return typeof text === 'string' && text !== '' ? text.slice(0, 600) : undefined;
}
