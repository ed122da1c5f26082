import { countAll } from '../findings.ts';
import type { ScanReport } from '../scan-report.ts';
import type { Severity, Vulnerability } from '../vulnerability.ts';
import { writeInTurns } from './write-in-turns.ts';
import type { DocumentedScan } from './write-spdx.ts';

// What readers of code scanning show, and their score from 0 to 10.
const ratings: Readonly<Record<Severity, { readonly level: string; readonly score: string }>> = {
  CRITICAL: { level: 'error', score: '9.5' },
  HIGH: { level: 'error', score: '8.0' },
  MEDIUM: { level: 'warning', score: '5.5' },
  LOW: { level: 'note', score: '2.0' },
  UNKNOWN: { level: 'note', score: '0.0' },
};

/** Returns the findings of a scan in the form of SARIF 2.1.0: a rule for each vulnerability, a result for each package with it. */
export async function writeSarif(
  { image, scanner, finishedAt }: Omit<DocumentedScan, 'address'>,
  { counts }: Pick<ScanReport, 'counts'>,
  vulnerabilities: readonly Vulnerability[],
): Promise<string> {
  const rules = new Map<string, Vulnerability>();
  for (const found of vulnerabilities) if (!rules.has(found.id)) rules.set(found.id, found);
  const left = countAll(counts) - vulnerabilities.length;
  const [name = '', version] = scanner.split(' ');
  // The two long lists are in different objects of one run.
  const driver = await writeInTurns({ name: name || 'scanner', ...(version ? { version } : {}) }, [
    { name: 'rules', items: rulesOf(rules) },
  ]);
  const notification = {
    level: 'note',
    message: { text: `${left} less severe vulnerabilities are not listed` },
  };
  const invocation = {
    executionSuccessful: true,
    endTimeUtc: new Date(finishedAt).toISOString(),
    ...(left > 0 ? { toolExecutionNotifications: [notification] } : {}),
  };
  const run = await writeInTurns({ invocations: [invocation] }, [
    { name: 'results', items: resultsOf(vulnerabilities, rules, image) },
  ]);
  return `{"$schema": "https://json.schemastore.org/sarif-2.1.0.json",
"version": "2.1.0",
"runs": [{"tool": {"driver": ${driver.trimEnd()}},
${run.trimEnd().slice(1)}]}
`;
}

function* rulesOf(rules: ReadonlyMap<string, Vulnerability>): Iterable<object> {
  for (const { id, title, severity, primaryUrl } of rules.values()) {
    yield {
      id,
      shortDescription: { text: linkless(title) || id },
      ...(primaryUrl === undefined ? {} : { helpUri: primaryUrl }),
      properties: {
        tags: ['vulnerability', 'security', severity],
        'security-severity': ratings[severity].score,
      },
    };
  }
}

function* resultsOf(
  vulnerabilities: readonly Vulnerability[],
  rules: ReadonlyMap<string, Vulnerability>,
  image: string,
): Iterable<object> {
  const indexes = new Map([...rules.keys()].map((id, at) => [id, at]));
  const [repository = ''] = image.split('@');
  // Code scanning shows paths. The host with its port would be the scheme of a URI.
  const uri = encodeURI(repository.slice(repository.indexOf('/') + 1));
  for (const found of vulnerabilities) {
    const { id, severity, title, pkgName, installedVersion, fixedVersion, layer } = found;
    const fix = fixedVersion === undefined ? 'no fixed version' : `fixed in ${fixedVersion}`;
    yield {
      ruleId: id,
      ruleIndex: indexes.get(id),
      level: ratings[severity].level,
      message: {
        text: `${severity}: ${pkgName} ${installedVersion} (${fix}) in ${image}${title ? `: ${linkless(title)}` : ''}`,
      },
      locations: [
        {
          physicalLocation: { artifactLocation: { uri }, region: { startLine: 1 } },
          logicalLocations: [{ fullyQualifiedName: `${pkgName}@${installedVersion}` }],
        },
      ],
      properties: { severity, pkgName, installedVersion, fixedVersion, layer },
    };
  }
}

/** Returns a text of a database without brackets, which make links in messages of SARIF. */
function linkless(text: string): string {
  return text.replaceAll('[', '(').replaceAll(']', ')');
}
