# Hashes, regular expressions, sorting, string building, a fork and a pipe.
use strict; use warnings;
my (%count, $text);
$text .= "line $_ of " . ($_ * 7919 % 1009) . "\n" for 1 .. 20000;
$count{$1}++ while $text =~ /of (\d+)/g;
my @top = sort { $count{$b} <=> $count{$a} || $a <=> $b } keys %count;
print scalar(@top), " $top[0] $count{$top[0]}\n";
(my $swapped = $text) =~ s/(\w+) (\d+)/$2-$1/g;
print length($swapped), " ", unpack("%32C*", $swapped), "\n";
open(my $child, "-|", "echo from the child; exit 3") or die;
print <$child>; close $child; print $? >> 8, "\n";
eval { die { code => 42 } }; print $@->{code}, "\n";
