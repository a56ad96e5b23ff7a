// Package experiment repeats the experiments of the papers that stand behind
// Pilotage, with the product's policies, and sets their claims beside what comes
// out. What a paper does not give is chosen here and named in the report.
//
// It draws and computes; who calls it writes the files and says how much may run
// at once.
package experiment
