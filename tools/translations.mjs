// Report messages that are not translated, and remove translations that are not used: node tools/translations.mjs
//
// A translation is a file jupyter_dtf/locale/LANGUAGE/LC_MESSAGES/jupyter_dtf.json in JupyterLab's format. It maps each
// message of the page, preceded by its context and \u0004 if it has one, to its translation, or to one for each plural
// form.
// To add a language, create a file with only a header like that of the German one.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import console from 'node:console';
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

import ts from 'typescript';

const ROOT = path.join(path.dirname(fileURLToPath(import.meta.url)), '..');
const LOCALES = path.join(ROOT, 'jupyter_dtf/locale');
// The positions of the context, the message and its plural among a method's arguments; -1: no such argument.
const METHODS = { __: [-1, 0, -1], _n: [-1, 0, 1], _p: [0, 1, -1], _np: [0, 1, 2] };

/**
 * Returns the forms of every message of the page, keyed by message: one form, or singular and plural. Throws if a
 * message is not a string literal.
 */
export function messages() {
  const found = new Map();
  for (const file of filesIn(path.join(ROOT, 'src'))) {
    const kind = file.endsWith('x') ? ts.ScriptKind.TSX : ts.ScriptKind.TS;
    const visit = node => {
      if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) {
        const places = Object.hasOwn(METHODS, node.expression.name.text) && METHODS[node.expression.name.text];
        if (places) {
          add(found, file, node, ...places.map(place => (place < 0 ? '' : textOf(node.arguments[place]))));
        }
      }
      ts.forEachChild(node, visit);
    };
    visit(ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true, kind));
  }
  return found;
}

function add(found, file, node, context, message, plural) {
  if (context === undefined || message === undefined || plural === undefined) {
    throw new Error(`${file}: a message must be a string literal, got ${node.getText()}`);
  }
  const key = context === '' ? message : `${context}\u0004${message}`;
  const forms = plural === '' ? [message] : [message, plural];
  const known = found.get(key) ?? forms;
  if (known.length !== forms.length) {
    throw new Error(`${file}: “${message}” is used with and without a plural: one of the two uses needs a context (_p)`);
  }
  found.set(key, forms);
}

function textOf(node) {
  if (node && ts.isStringLiteralLike(node)) {
    return node.text;
  }
  if (node && ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.PlusToken) {
    const [left, right] = [textOf(node.left), textOf(node.right)];
    return left === undefined || right === undefined ? undefined : left + right;
  }
  return undefined;
}

function filesIn(directory) {
  return readdirSync(directory, { recursive: true })
    .filter(name => /\.tsx?$/.test(name))
    .map(name => path.join(directory, name));
}

/** Returns the existing translations: the language, the file and its contents. */
export function translations() {
  return readdirSync(LOCALES, { withFileTypes: true })
    .filter(entry => entry.isDirectory())
    .map(({ name }) => {
      const file = path.join(LOCALES, name, 'LC_MESSAGES/jupyter_dtf.json');
      return { language: name, file, content: JSON.parse(readFileSync(file, 'utf8')) };
    });
}

/** Returns the messages that a translation lacks, and its entries that are not messages. */
export function differences(wanted, content) {
  const own = Object.keys(content).filter(key => key !== '');
  const missing = [...wanted.keys()].filter(key => !content[key] || content[key].some(form => form === ''));
  return { missing, unused: own.filter(key => !wanted.has(key)) };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const wanted = messages();
  for (const { language, file, content } of translations()) {
    const { missing, unused } = differences(wanted, content);
    const keys = [...wanted.keys()].sort((a, b) => (a < b ? -1 : 1));
    const kept = keys.map(key => [key, content[key] ?? wanted.get(key).map(() => '')]);
    writeFileSync(file, `${JSON.stringify({ '': content[''], ...Object.fromEntries(kept) }, null, 2)}\n`);
    console.log(`${language}: ${missing.length} to be translated, marked with ""; ${unused.length} removed`);
    missing.forEach(key => console.log(`  ${JSON.stringify(key)}`));
  }
}
